"""How commands are declared and their arguments are read, and the options that several share.

**Nouns.** An *option* adds an option or an argument to a parser.  A *command* is its name, its
options and its function.
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import re
import sys
import textwrap
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

from daf_query._formats import ROW_FORMATS
from daf_query.cli._later import slices
from daf_storage import DafError

_MOST: Final = 2**61
"""More rows than a table has; what is larger is no number of the engine."""
_LONGEST_NAME: Final = 256
"""No file has a longer one; a query may be longer."""

Option: TypeAlias = Callable[[Any], object]
"""Adds an option, or several, to a parser or a group of one."""
Run: TypeAlias = Callable[[Namespace], int | None]
"""Runs a command, and returns its exit code; None if it is done."""
_EXAMPLES: Final = "\n\nExamples\n--------\n"


def whole_number(text: str) -> int:
    """Return a number of things, as an argument names it."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number, 0 or more")
    return min(int(text), _MOST)


def byte_size(text: str) -> int:
    """Return a number of bytes, as an argument names it."""
    try:
        return slices.byte_count(text, keyword="size")
    except DafError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


_TYPES: Final = {"N": whole_number, "SIZE": byte_size}
"""What values are, by what help calls them; others are text."""


def option(spec: str, what: str | None = None, **more: Any) -> Option:
    """Return an option, or an argument without dashes.

    Parameters
    ----------
    spec
        As help shows it: ``-o, --output FILE``; ``PATH``, or ``[QUERY]`` if it may be left out.  An
        option without a value is a flag; one that ends in ``...`` may be repeated.
    what
        Its help.
    more
        What else ``add_argument`` takes.
    """
    words = spec.removesuffix("...").split(" ")
    names = [word.rstrip(",") for word in words if word.startswith("-")]
    if not names:
        metavar = spec.strip("[]")
        names = [more.pop("dest", metavar.lower())]
        more = {"metavar": metavar, **({} if metavar == spec else {"nargs": "?"}), **more}
    elif len(names) < len(words):
        more = {"metavar": words[-1], "type": _TYPES.get(words[-1]), **more}
    elif not more.keys() & {"choices", "type", "action", "default", "nargs"}:
        more["action"] = "store_true"
    if spec.endswith("..."):
        more = {"action": "append", "default": [], **more, "help": f"{what}; repeatable"}
    return lambda parser: parser.add_argument(*names, **{"help": what, **more})


def grouped(title: str | None, *options: Option) -> Option:
    """Return options that stand together in help, below a title; or of which one may be given."""

    def add(parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group(title) if title else parser.add_mutually_exclusive_group()
        for each in options:
            each(group)

    return add


class Parser(argparse.ArgumentParser):
    """A parser that takes options in full only, and suggests similar words for unknown ones.

    An abbreviation would mean something else, or nothing, as soon as a command gets another option.
    """

    def __init__(self, **named: Any) -> None:
        keeping = argparse.RawDescriptionHelpFormatter  # the examples as they are written
        super().__init__(**{**named, "allow_abbrev": False, "formatter_class": keeping})

    def _print_message(self, message: str, file: Any = None) -> None:
        (file or sys.stderr).write(message)  # argparse passes over a full device

    def error(self, message: str) -> NoReturn:
        """Refuse wrong usage; what is in the data set is listed by ``daf info``."""
        is_of_data = re.search(r" required: .*(AXIS|--axis|--by)\b", message)
        hint = "; 'daf info PATH' lists what the data set contains" if is_of_data else ""
        hint = "; 'daf --help' lists them" if message.endswith("required: COMMAND") else hint
        super().error(f"{message}{hint}")

    def check_options(self, arguments: Sequence[str]) -> None:
        """Refuse unknown options, before anything else is missed; and one that is given twice."""
        present, given = self._option_string_actions, set[argparse.Action]()
        for word in takewhile("--".__ne__, arguments):
            option = word.partition("=")[0]
            if re.fullmatch(r"-[-a-zA-Z]\S*", option) and not {option, option[:2]} & present.keys():
                available = sorted(each for each in present if each.startswith("--"))
                self.refuse("there is no option", option, available)
            action = present.get(option) or present.get(option[:2])
            if action in given:
                self.error(f"{option} is given twice; pass it once")
            if isinstance(action, argparse._StoreAction):  # noqa: SLF001 - it has no other name
                given.add(action)

    def refuse(self, what: str, name: str, available: Sequence[str]) -> NoReturn:
        """Refuse an unknown name, and suggest similar ones."""
        near = [each for each in available if each.startswith(name)]
        near = near or difflib.get_close_matches(name, available, n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else "; '--help' lists them"
        self.error(f"{what} {name}{hint}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command: what runs it, what it takes, and what its help says, which is the docstring."""

    run: Run
    options: tuple[Option, ...]
    one_of: tuple[str, ...] = ()
    """Arguments of which exactly one has to be given."""
    any_of: tuple[str, ...] = ()
    """Arguments of which at least one has to be given."""
    has_prompt: bool = False
    """Whether none of `one_of` is given for a prompt, which needs a terminal."""

    @property
    def name(self) -> str:
        """What is typed."""
        return self.run.__name__.removesuffix("_command").replace("_", "-")

    def add_to(self, commands: Any) -> Parser:
        """Return its parser, added to that of all commands."""
        said, _, examples = inspect.cleandoc(self.run.__doc__ or "").partition(_EXAMPLES)
        parser: Parser = commands.add_parser(
            self.name,
            help=said.partition("\n")[0].rstrip(".").replace("%", "%%"),
            description=said,
            epilog=f"examples:\n{textwrap.indent(examples, '  ')}",
        )
        for each in self.options:
            each(parser)
        return parser

    def parse(self, parser: Parser, arguments: Sequence[str]) -> Namespace:
        """Return what the arguments ask for; wrong usage ends the process with code 2."""
        parser.check_options(arguments)
        options, rest = parser.parse_known_intermixed_args(arguments)
        if rest:
            parser.error(f"unrecognized arguments: {' '.join(rest)}{_pattern(options, rest)}")
        given = sum(getattr(options, name) is not None for name in self.one_of)
        is_prompt = self.has_prompt and given == 0
        if self.one_of and given != 1 and not (is_prompt and is_terminal()):
            why = "; '-' reads standard input, and a prompt needs a terminal" if is_prompt else ""
            parser.error(f"give one of {' and '.join(map(_shown, self.one_of))}{why}")
        if self.any_of and not any(getattr(options, name) for name in self.any_of):
            parser.error(f"give {' or '.join(map(_shown, self.any_of))}")
        return options


def _pattern(options: Namespace, rest: Sequence[str]) -> str:
    """Return what to write for the files that a shell made of a pattern."""
    words = [Path(word) for word in (*vars(options).values(), *rest) if isinstance(word, str)]
    paths = [path for path in words if path.suffix and len(path.name) < _LONGEST_NAME]
    if not hasattr(options, "skip_broken") or sum(path.exists() for path in paths) < 2:
        return ""
    pattern = paths[0].with_name(f"*{paths[0].suffix}")
    return f"; several data sets are one pattern, in quotes: '{pattern}'"


def _shown(name: str) -> str:
    """Return how an argument is written.

    >>> _shown("query"), _shown("dry_run")
    ('QUERY', '--dry-run')
    """
    return name.upper() if name in ("query", "axis") else f"--{name.replace('_', '-')}"


def command(*options: Option, **rules: Any) -> Callable[[Run], Command]:
    """Declare the function below as a command."""
    return lambda run: Command(run=run, options=options, **rules)


def is_terminal() -> bool:
    """Return whether standard input and output are a terminal."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


def given(options: Namespace, *names: str) -> dict[str, Any]:
    """Return those options that are given, as keywords of a function that has them, too."""
    values = {name: getattr(options, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


CODECS: Final = ("blosc-zstd", "blosc-lz4", "blosc-zstd-shuffle", "zstd", "gzip")


def flag(spec: str, what: str, dest: str, value: Any, otherwise: Any) -> Option:
    """Return an option without a value that stands for one."""
    return option(spec, what, dest=dest, action="store_const", const=value, default=otherwise)


def overwrite(what: str) -> Option:
    """Return ``--overwrite`` of a command that replaces something."""
    return flag("--overwrite", f"replace {what}", "if_exists", "replace", "error")


def one_layout(what: str) -> Option:
    """Return ``--one-layout`` of a command that stores matrices."""
    return flag("--one-layout", what, "relayout", value=False, otherwise=True)


def make_unique(what: str) -> Option:
    """Return ``--make-unique`` of a command that refuses duplicates otherwise."""
    return flag("--make-unique", what, "duplicates", "make_unique", "error")


def join_options(default: str) -> tuple[Option, ...]:
    """Return what says how several data sets become one; PATH is then a pattern of paths."""
    columns = f"keep the columns that all have, or any (default: {default})"
    return (
        option("--join", f"with several data sets: {columns}", choices=("inner", "outer")),
        option("--fill-value VALUE", "with several data sets: the value of columns that one lacks"),
        option("--along AXIS", "with several data sets: the axis that is joined (default: obs)"),
    )


PATH: Final = option("PATH")
AXIS: Final = option("AXIS")
QUIET: Final = option("--quiet", "no progress bar and no summary")
STRICT: Final = option("--strict", "fail if something would be lost, and write nothing")
PACKING: Final = (
    option("--zarr-format", "version of Zarr; 2 unless packed", type=int, choices=(2, 3)),
    option("--packed", "cut large arrays into small chunks and compress them (Zarr v3 and HDF5)"),
    option("--codec", "how to compress (default: blosc-zstd)", choices=CODECS),
    option("--level", "from 1, fast, to 9 (zstd: 22), small", type=int),
    option("--chunk-kb N", "KiB of elements in a chunk (default: 8; of an import 64)", type=int),
)
COUNTS_AS: Final = option(
    "--counts-as [NAME=]TYPE...",
    "store the whole numbers of the main matrix, or of NAME, as uint8, uint16 or uint32, or fail",
)
MEMORY: Final = option(
    "--memory SIZE",
    "memory for elements of matrices, 16MiB or more (default: 1GiB)",
    dest="memory_bytes",
)
PARAM: Final = option(
    "--param NAME=VALUE...", 'the value of $NAME in the SQL: JSON (60, true, [1, 2], "60") or text'
)
REPORT_FORMAT: Final = option(
    "--format", "how to print the result", choices=("text", "json"), default="text"
)
REPORT: Final = (REPORT_FORMAT, QUIET)
"""Options of a command that reports what it has done."""
OVERLAY: Final = option("--overlay OVERLAY", "a data set on top of PATH, which is only read")
SKIP_BROKEN: Final = option(
    "--skip-broken", "with a pattern: leave out files that cannot be opened, and exit with code 4"
)
AXIS_NAMES: Final = tuple(
    option(f"--{key}-is AXIS", f"name for the axis of {key} of an AnnData")
    for key in ("obs", "var")
)
ROWS: Final = option(
    "--rows WHICH", "a SQL predicate, a SELECT of name or index, names (A,B), or @FILE with names"
)
SLICE: Final = (
    PATH,
    option("--matrix NAME", "the name of the matrix (default: the main one, X)"),
    ROWS,
    option("--columns WHICH", "the same for the other axis"),
    PARAM,
    *(
        option(f"--{key}-axis AXIS", "only needed if it is ambiguous")
        for key in ("rows", "columns")
    ),
    OVERLAY,
    SKIP_BROKEN,
)
"""Options of a command that reads a part of a matrix."""
NO_PROVENANCE: Final = option(
    "--no-provenance", "do not record the query, data sets and versions in the file"
)
NO_PAGER: Final = option("--no-pager", "print long tables instead of showing them in $PAGER")


def rows_out(*more_formats: str) -> tuple[Option, ...]:
    """Return where rows go, and how: of a command whose answer is a table."""
    formats = ("table", *ROW_FORMATS, *more_formats)
    return (
        option("--format", "default: by the suffix of FILE, else table", choices=formats),
        option(
            "-o, --output FILE",
            "where to write (default, or '-': standard output); .csv.gz is compressed",
        ),
        option(
            "--max-rows N",
            "rows of a table on a terminal (default: 10000 in a pager, else 40; 0: all)",
        ),
        NO_PAGER,
        NO_PROVENANCE,
        QUIET,
    )


QUERY_FILE: Final = option("-f, --file FILE.sql", "a file with the query; comments are allowed")
