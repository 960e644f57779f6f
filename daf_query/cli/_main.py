"""Run a command: its arguments, its errors, its exit code, and the completion of shells.

Messages of the packages write an argument as ``name=``; here they name the option.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import signal
import sys
import warnings
from argparse import Namespace
from collections.abc import Sequence
from types import FrameType
from typing import Any, Final, NoReturn

from daf_query.cli import _output as outputs
from daf_query.cli import _query, _serve, _writing
from daf_query.cli._later import metadata, storage_base
from daf_query.cli._options import Command, Parser
from daf_storage import errors
from daf_storage._lazy import HiddenPandas
from daf_storage._terminal_text import visible

_COMMANDS: Final = {
    each.name: each
    for module in (_query, _writing, _serve)
    for each in vars(module).values()
    if isinstance(each, Command)
}
"""As help lists them."""
_FILES: Final = re.compile(r"PATH|SRC|DST|OUT|.*FILE(\.sql)?|.*\.h5ad")
"""How arguments that are files are called, which shells complete."""
_WITHOUT_PANDAS: Final = ("sql", "head", "describe", "diagnose", "totals", "markers")
"""Commands that seldom need pandas, and hide it until they do."""


class Terminated(SystemExit):
    """The process was asked to end by a signal."""

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number)
        super().__init__(128 + number)


def _end(number: int, _: FrameType | None) -> NoReturn:
    """Raise `Terminated` in the main thread, so that what is half done is discarded.

    A second signal, as some programs send it, is ignored: cleaning up is not interrupted.
    """
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt if number == signal.SIGINT else Terminated(number)


def _raise_later(ignored: Any) -> None:
    """Raise an interruption again a little later that came while an object was freed.

    Python prints and drops what is raised there: the command would go on, and end with 0.
    """
    error = ignored.exc_value
    if not isinstance(error, KeyboardInterrupt | Terminated):
        sys.__unraisablehook__(ignored)
        return

    def again(*_: object) -> NoReturn:
        raise error

    signal.signal(signal.SIGALRM, again)
    signal.setitimer(signal.ITIMER_REAL, 0.01)


def run_command() -> NoReturn:
    """Run the command of ``sys.argv`` and end the process with its exit code.

    At once: threads of the engine may still compute results that nobody reads, and the normal end
    of the interpreter would fail on them.
    """
    _open_closed_streams()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, _end)
    sys.unraisablehook = _raise_later
    if sys.argv[1:2] and sys.argv[1] in _WITHOUT_PANDAS:
        sys.meta_path.insert(0, HiddenPandas)
    code = main(sys.argv[1:])
    signal.setitimer(signal.ITIMER_REAL, 0)
    with contextlib.suppress(OSError):  # which main() has reported already
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _open_closed_streams() -> None:
    """Open the null device in place of streams that are closed (``>&-``).

    Otherwise the next files that are opened, say an archive, would get their numbers, and what a
    library prints would be written into the data.  Output to a closed stream is an error.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if number < 2 else os.O_WRONLY)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w")
    if isinstance(sys.stdout, io.TextIOWrapper):  # names that the locale cannot show are escaped
        is_any_shown = sys.stdout.errors != "strict" and sys.stdout.encoding == "utf-8"
        sys.stdout.reconfigure(errors=sys.stdout.errors if is_any_shown else "backslashreplace")


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
            code: int | None = options.command.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        code = outputs.DONE
        # The reader of our output is gone; keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        code = outputs.INTERRUPTED
        outputs.print_failure("interrupted")
    except Terminated as ended:
        code = 128 + ended.signal
        outputs.print_failure(f"ended by {ended.signal.name}")
    except Exception as error:  # noqa: BLE001 - the engine raises plain Exceptions
        code = outputs.FAILED
        outputs.print_failure(error, *arguments[:1], written=getattr(options, "written", ""))
    if code is None:
        code = outputs.LEFT_OUT if getattr(options, "has_left_out", False) else outputs.DONE
    return code


def _parsed(arguments: Sequence[str]) -> Namespace:
    """Return the arguments of a command; what help prints is flushed, so that it can fail."""
    name = arguments[0] if arguments else ""
    command = _COMMANDS.get(name)
    parser, parsers = _built()
    try:
        if command is None:
            if os.path.exists(name):  # noqa: PTH110 - it may be empty, or too long for a Path
                parser.error(f"{name} is no command; see '{outputs.command_line('info', name)}'")
            if arguments and (name in ("", "-", "--") or not name.startswith("-")):
                parser.refuse("there is no command", name or "''", list(_COMMANDS))
            parser.check_options(arguments)
            parser.parse_args(list(arguments))
            raise SystemExit(2)
        options = command.parse(parsers[name], arguments[1:])
    except SystemExit:
        sys.stdout.flush()
        raise
    for each in (getattr(options, name, None) for name in ("output", "destination", "into")):
        if each is not None and "://" in each:
            raise errors.ReadOnlyError(
                f"{each}: nothing is written to a server or a bucket; name a file of this machine, "
                "and upload it"
            )
    options.command = command
    options.main = main  # the demonstration types commands itself
    return options


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
        shtab = storage_base.optional_import("shtab", extra="completion")
        whole, parsers = _built()
        for each in parsers.values():
            for action in each._actions:  # noqa: SLF001 - argparse has no other way to list them
                if isinstance(action.metavar, str) and _FILES.fullmatch(action.metavar):
                    action.complete = shtab.FILE  # type: ignore[attr-defined] # what it looks for
        print(shtab.complete(whole, shell))
        parser.exit()


def _built() -> tuple[Parser, dict[str, Parser]]:
    """Return the parser of the command line, and those of the commands."""
    parser = Parser(
        prog="daf",
        description="SQL over single-cell metadata, then just the slice of the matrix you ask for.",
        epilog="""examples:
  daf import pbmc.h5ad pbmc.daf.zarr --obs-is cell --var-is gene
  daf info pbmc.daf.zarr
  daf sql atlas.h5ad "SELECT donor, count(*) AS cells FROM obs GROUP BY donor"
  daf extract pbmc.daf.zarr --matrix X --rows "age > 60" --columns "is_marker" -o markers.h5ad
  daf demo

exit codes: 0 done, 1 the request failed, 2 wrong usage, 3 repaired, but data is lost or damaged,
  4 done, without what --skip-broken left out, 130 interrupted, 143 terminated
Run 'daf COMMAND --help' for more; DAF_DEBUG=1 shows where an error comes from.""",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    parser.add_argument(
        "--print-completion",
        action=_Completion,
        choices=("bash", "zsh", "tcsh"),
        help="print what makes a shell complete commands and options, and exit",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    return parser, {name: command.add_to(commands) for name, command in _COMMANDS.items()}


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning of ours in one line; those of other packages are not for users."""
    if isinstance(message, errors.DafWarning):
        print(visible(f"daf: warning: {outputs.option_forms(str(message))}"), file=sys.stderr)
