"""Run a command: its arguments, its errors and its exit code."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import NoReturn

from daf_query.cli._colours import coloured
from daf_query.cli._exit_codes import DONE, FAILED, INTERRUPTED
from daf_query.cli._failures import failure_sentence
from daf_query.cli._parser import build_parser
from daf_query.cli._signals import Terminated, end_in_order
from daf_query.cli._standard_streams import prepare_standard_streams
from daf_storage import DafError, errors
from daf_storage.spi import visible


def run_command() -> NoReturn:
    """Run the command of ``sys.argv`` and end the process with its exit code.

    At once: threads of the engine may still compute results that nobody reads, and the normal end
    of the interpreter would fail on them.
    """
    prepare_standard_streams()
    end_in_order()
    code = main(sys.argv[1:])
    with contextlib.suppress(OSError, DafError):  # which main() has reported already
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def main(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code; wrong usage exits with 2, as argparse does.

    >>> main(["info", "nowhere.daf.zarr"])
    1
    """
    options = argparse.Namespace()
    try:
        options = _parsed(arguments)
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            warnings.simplefilter("always", errors.DafWarning)
            code = _called(options)
        sys.stdout.flush()
    except BrokenPipeError:
        code = DONE
        # The reader of our output is gone; keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except Terminated as ended:
        return _fail(f"ended by {ended.signal.name}", ended.exit_code)
    except Exception as error:  # noqa: BLE001 - the engine raises plain Exceptions
        return _fail(failure_sentence(error, _target(options)), FAILED)
    return DONE if code is None else int(code)


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the arguments of a command; what help prints is flushed, so that it can fail."""
    try:
        options = build_parser().parse_args(list(arguments))
    except SystemExit:
        sys.stdout.flush()
        raise
    options.run = main  # the demonstration types commands itself
    return options


def _called(options: argparse.Namespace) -> int | None:
    """Import the module of a command, and run its function."""
    module, _, function = options.command.partition(".")
    command = getattr(importlib.import_module(f"daf_query.cli.{module}"), function)
    code: int | None = command(options)
    return code


def _target(options: argparse.Namespace) -> str:
    """Return the file that a command was writing, for errors of the system that name none."""
    named = (getattr(options, name, None) for name in ("output", "destination", "path"))
    return str(next((path for path in named if path is not None), ""))


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning of ours in one line; those of other packages are not for users."""
    if isinstance(message, errors.DafWarning):
        print(visible(f"daf: warning: {message}"), file=sys.stderr)


def _fail(message: str, code: int) -> int:
    """Print an error in one line; its details on a terminal only, tracebacks on request only."""
    if os.environ.get("DAF_DEBUG"):
        traceback.print_exc()
    first, _, details = visible(message).partition("\n")
    print(f"{coloured('daf: error:', 'error', sys.stderr)} {first}", file=sys.stderr)
    if details and sys.stderr.isatty():
        print(details, file=sys.stderr)
    return code
