"""Run a command: its arguments, its errors and its exit code; and what there is for a shell."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import traceback
import warnings
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from daf_query.cli import _look, _query, _saving, _serve, _transfer, _upkeep
from daf_query.cli._failures import (
    DONE,
    FAILED,
    INTERRUPTED,
    Terminated,
    end_in_order,
    failure_sentence,
)
from daf_query.cli._parser import Help, Parser
from daf_query.cli._terminal import coloured, prepare_standard_streams
from daf_storage import DafError, errors
from daf_storage._lazy import lazy_module
from daf_storage._terminal_text import visible

if TYPE_CHECKING:
    from importlib import metadata

    from daf_storage import base as storage_base
else:
    storage_base = lazy_module("daf_storage.base")
    metadata = lazy_module("importlib.metadata")

_COMMANDS: Final = (
    _transfer.import_command,
    _look.info_command,
    _look.head_command,
    _look.describe_command,
    _query.sql_command,
    _query.extract_command,
    _query.profile_command,
    _query.diagnose_command,
    _transfer.split_command,
    _transfer.export_command,
    _transfer.convert_command,
    _transfer.concat_command,
    _saving.save_vector_command,
    _saving.save_axis_command,
    _saving.save_matrix_command,
    _saving.annotate_command,
    _upkeep.reorder_command,
    _upkeep.index_command,
    _upkeep.provenance_command,
    _upkeep.verify_command,
    _upkeep.repair_command,
    _serve.serve_command,
    _serve.explore_command,
    _serve.demo_command,
)
"""As help lists them."""
_FILES: Final = (
    "PATH",
    "FILE",
    "FILE.sql",
    "NAME=FILE",
    "IN.h5ad",
    "OUT.h5ad",
    "OUT",
    "SRC",
    "DST",
)
"""How arguments that are files are called, which shells complete."""


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
    options = Namespace()
    try:
        options = _parsed(arguments)
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            warnings.simplefilter("always", errors.DafWarning)
            code: int | None = options.command(options)
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


class _Version(argparse.Action):
    """Prints the version, which takes a while to find, when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(f"daf {metadata.version('daf-query')}")
        parser.exit()


class _Completion(argparse.Action):
    """Prints the completion of a shell, which needs a package that others do not."""

    def __call__(
        self, parser: argparse.ArgumentParser, _: Any, shell: Any, __: str | None = None
    ) -> None:
        print(_completion_of(parser, shell))
        parser.exit()


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = Parser(
        prog="daf",
        formatter_class=Help,
        description="SQL over single-cell metadata, then just the slice of the matrix you ask for.",
        epilog="""examples:
  daf import pbmc.h5ad pbmc.daf.zarr --obs-is cell --var-is gene
  daf info pbmc.daf.zarr
  daf sql atlas.h5ad "SELECT donor, count(*) AS cells FROM obs GROUP BY donor"
  daf sql pbmc.daf.zarr "SELECT donor, count(*) AS cells FROM cell GROUP BY donor"
  daf extract pbmc.daf.zarr --matrix X --rows "age > 60" --columns "is_marker" -o markers.h5ad
  daf demo

exit codes: 0 done, 1 the request failed, 2 wrong usage, 3 repaired, but data is lost or damaged,
  130 interrupted, 143 terminated
'daf COMMAND --help' says more; DAF_DEBUG=1 shows where an error comes from.""",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    parser.add_argument(
        "--print-completion",
        action=_Completion,
        choices=("bash", "zsh", "tcsh"),
        help="print what makes a shell complete commands and options, and exit",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_to(commands)
    return parser


def _completion_of(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the completion of a parser as a script of a shell.

    Raises
    ------
    MissingDependencyError
        The extra ``completion`` is not installed.
    """
    shtab = storage_base.optional_import("shtab", extra="completion")
    _complete_files(parser, shtab.FILE)
    return str(shtab.complete(parser, shell))


def _complete_files(parser: argparse.ArgumentParser, files: Any) -> None:
    """Say which arguments are files."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to list them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            for command in action.choices.values():
                _complete_files(command.complete(), files)
        elif action.metavar in _FILES:
            action.complete = files  # type: ignore[attr-defined] # what shtab looks for


def _parsed(arguments: Sequence[str]) -> Namespace:
    """Return the arguments of a command; what help prints is flushed, so that it can fail."""
    try:
        options = build_parser().parse_args(list(arguments))
    except SystemExit:
        sys.stdout.flush()
        raise
    options.run = main  # the demonstration types commands itself
    return options


def _target(options: Namespace) -> str:
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
