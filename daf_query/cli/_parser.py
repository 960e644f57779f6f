"""How commands are declared: options and commands as values, and the parser that they make.

**Nouns.** An *option* is what ``add_argument`` takes, as a value; several commands share those that
stand here.  A *command* is its name, its options and its function.

Must not import what it parses for; what a size is, it asks when one is given.
"""

from __future__ import annotations

import argparse
import difflib
import sys
import textwrap
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from daf_storage import DafError
from daf_storage._lazy import lazy_module

if TYPE_CHECKING:
    from daf_query import slice as slices
else:
    slices = lazy_module("daf_query.slice")

_LONGEST_NAME: Final = 256
"""No file has a longer one; a query may be longer."""
LEAST_MEMORY_BYTES: Final = 1 << 24
"""What `daf_storage` asks for; a test compares the two."""
CODECS: Final = ("blosc-zstd", "blosc-lz4", "blosc-zstd-shuffle", "zstd", "gzip")

Run: TypeAlias = Callable[[Namespace], int | None]
"""Runs a command, and returns its exit code; None if it is done."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option or argument of a command."""

    names: tuple[str, ...]
    keywords: dict[str, Any]
    """What ``add_argument`` takes."""

    @property
    def dest(self) -> str:
        """The attribute of the parsed options that has its value."""
        name: str = self.keywords.get("dest", self.names[-1].lstrip("-").replace("-", "_"))
        return name

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        """Add it to a parser."""
        parser.add_argument(*self.names, **self.keywords)


def option(spec: str, what: str | None = None, *, is_repeated: bool = False, **more: Any) -> Option:
    """Return an option, or an argument without dashes.

    Parameters
    ----------
    spec
        As help shows it: ``-o, --output FILE``; ``PATH``, or ``[QUERY]`` if it may be left out.  An
        option without a value is a flag.
    what
        Its help.
    more
        What else ``add_argument`` takes.

    Examples
    --------
    >>> option("-o, --output FILE").names, option("[QUERY]").keywords["nargs"]
    (('-o', '--output'), '?')
    """
    if not spec.startswith("-"):
        metavar = spec.strip("[]")
        optional = {} if metavar == spec else {"nargs": "?"}
        name = more.pop("dest", metavar.lower())
        return Option((name,), {"metavar": metavar, "help": what, **optional, **more})
    words = spec.split(" ")
    names = tuple(word.rstrip(",") for word in words if word.startswith("-"))
    if len(names) < len(words):
        more["metavar"] = words[-1]
    elif not more.keys() & {"choices", "type", "action", "default"}:
        more["action"] = "store_true"
    if is_repeated:
        more = {"action": "append", "default": [], **more}
    return Option(names, {"help": what, **more})


@dataclass(frozen=True, slots=True)
class Group:
    """Options of which one may be given; or, with a title, that stand together in help."""

    options: tuple[Option, ...]
    title: str = ""

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Add its options to a parser."""
        group: argparse._ArgumentGroup = (
            parser.add_argument_group(self.title)
            if self.title
            else parser.add_mutually_exclusive_group()
        )
        for each in self.options:
            each.add_to(group)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command: what it is called, what it takes, and what runs it."""

    name: str
    summary: str
    options: tuple[Option | Group, ...]
    examples: str
    run: Run
    one_of: tuple[str, ...] = ()
    """Arguments of which exactly one has to be given."""
    any_of: tuple[str, ...] = ()
    """Arguments of which at least one has to be given."""
    takes_patterns: bool = False
    """Whether its path may be a pattern, for several data sets as one."""
    has_prompt: bool = False
    """Whether none of `one_of` is given for a prompt, which needs a terminal."""

    def add_to(self, commands: argparse._SubParsersAction[Parser]) -> None:
        """Add it to a parser of commands."""
        examples = textwrap.indent(textwrap.dedent(self.examples).strip(), "  ")
        parser = commands.add_parser(
            self.name,
            help=self.summary,
            description=self.summary[0].upper() + self.summary[1:] + ".",
            epilog=f"examples:\n{examples}",
            formatter_class=Help,
        )
        parser.command = self
        parser.set_defaults(command=self.run)


def command(
    name: str, summary: str, *options: Option | Group, examples: str, **rules: Any
) -> Callable[[Run], Command]:
    """Declare the function below as a command."""

    def declared(run: Run) -> Command:
        return Command(
            name=name, summary=summary, options=options, examples=examples, run=run, **rules
        )

    return declared


class Help(argparse.RawDescriptionHelpFormatter):
    """Keeps the examples as they are written."""


class Parser(argparse.ArgumentParser):
    """A parser of which an optional argument may come after the options, too.

    Options are written in full: an abbreviation would mean something else, or nothing, as soon as a
    command gets another option.
    """

    command: Command | None = None
    """The command that it parses; None for all of them."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{**kwargs, "allow_abbrev": False})
        self._is_complete = False

    def complete(self) -> Parser:
        """Add the options of its command, unless they are there: most parsers are never used."""
        if self.command is not None and not self._is_complete:
            for each in self.command.options:
                each.add_to(self)
        self._is_complete = True
        return self

    def parse_known_args(  # type: ignore[override] # the overloads say the same of any namespace
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse the arguments that are known."""
        options, rest = super(Parser, self.complete()).parse_known_args(args, namespace)
        self._refuse_unknown(rest)
        for action in self._get_positional_actions():
            late = next((word for word in rest if " " in word or not word.startswith("-")), None)
            is_missing = getattr(options, action.dest, None) == action.default
            if action.nargs == "?" and is_missing and late is not None:
                setattr(options, action.dest, late)
                rest.remove(late)
        self._refuse_more(options, rest)
        if self.command is not None:
            self._refuse_none(options, self.command)
        return options, rest

    def _refuse_none(self, options: Any, command: Command) -> None:
        """Refuse a command that lacks what it needs."""
        count = sum(getattr(options, name) is not None for name in command.one_of)
        is_prompt = command.has_prompt and count == 0
        if command.one_of and count != 1 and not (is_prompt and is_terminal()):
            choices = " and ".join(map(self._shown, command.one_of))
            why = "; without one this is a prompt, which needs a terminal" if is_prompt else ""
            self.error(f"give one of {choices}{why}")
        if command.any_of and not any(getattr(options, name) for name in command.any_of):
            self.error(f"give {' or '.join(map(self._shown, command.any_of))}")

    def _refuse_unknown(self, rest: Sequence[str]) -> None:
        """Refuse options that there are not, with those that begin or read like them."""
        for word in rest:
            name = word.partition("=")[0]
            if not name.startswith("--") or " " in name:
                continue
            known = sorted(each for each in self._option_string_actions if each.startswith("--"))
            near = [each for each in known if each.startswith(name)]
            near = near or difflib.get_close_matches(name, known, n=3)
            hint = f"; do you mean {' or '.join(near)}?" if near else ""
            self.error(f"there is no option {name}{hint}")

    def _refuse_more(self, options: Any, rest: Sequence[str]) -> None:
        """Refuse what is too much, such as the files that a shell made of a pattern."""
        if not rest:
            return
        given = [getattr(options, action.dest, None) for action in self._get_positional_actions()]
        words = [Path(word) for word in (*given, *rest) if isinstance(word, str)]
        paths = [path for path in words if path.suffix and len(path.name) < _LONGEST_NAME]
        hint = ""
        takes_patterns = self.command is not None and self.command.takes_patterns
        if takes_patterns and sum(path.exists() for path in paths) > 1:
            pattern = paths[0].with_name(f"*{paths[0].suffix}")
            hint = f"; several data sets are one pattern, in quotes: '{pattern}'"
        self.error(f"unrecognized arguments: {' '.join(rest)}{hint}")

    def _shown(self, name: str) -> str:
        action = next(action for action in self._actions if action.dest == name)
        metavar = [] if action.metavar is None else [str(action.metavar)]
        return " ".join([*action.option_strings[:1], *metavar])


def is_terminal() -> bool:
    """Return whether standard input and output are a terminal."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


def given(options: Namespace, *names: str) -> dict[str, Any]:
    """Return those options that are given, as keywords of a function that has them, too."""
    values = {name: getattr(options, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def whole_number(text: str) -> int:
    """Return a number of things, as an argument names it."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number, 0 or more")
    return int(text)


def byte_size(text: str) -> int:
    """Return a number of bytes, as an argument names it."""
    try:
        return slices.byte_count(text, keyword="size")
    except DafError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def memory_size(text: str) -> int:
    """Return how much memory may be taken, as an argument names it."""
    size_bytes = byte_size(text)
    if size_bytes < LEAST_MEMORY_BYTES:
        raise argparse.ArgumentTypeError(f"{text!r} is not enough to work with: give 16MiB or more")
    return size_bytes


def _chosen(spec: str, what: str, dest: str, value: Any, otherwise: Any) -> Option:
    """Return a flag that stands for a value."""
    return option(spec, what, dest=dest, action="store_const", const=value, default=otherwise)


def overwrite(what: str) -> Option:
    """Return ``--overwrite`` of a command that replaces something."""
    return _chosen("--overwrite", f"replace {what}", "if_exists", "replace", "error")


def one_layout(what: str) -> Option:
    """Return ``--one-layout`` of a command that stores matrices."""
    return _chosen("--one-layout", what, "relayout", value=False, otherwise=True)


def make_unique(what: str) -> Option:
    """Return ``--make-unique`` of a command that refuses duplicates otherwise."""
    return _chosen("--make-unique", what, "duplicates", "make_unique", "error")


def join_options(default: str) -> tuple[Option, ...]:
    """Return what says how several data sets become one; PATH is then a pattern of paths."""
    of = "of a pattern of paths: "
    return (
        option(
            "--join",
            f"{of}the columns that all data sets have, or any (default: {default})",
            choices=("inner", "outer"),
        ),
        option("--fill-value VALUE", f"{of}what stands where a data set lacks a column"),
        option(
            "--along AXIS",
            f"{of}the axis whose entries are put one after the other (default: that of the "
            "observations)",
        ),
    )


PATH: Final = option("PATH")
AXIS: Final = option("AXIS")
QUIET: Final = option("--quiet", "no progress bar and no summary")
STRICT: Final = option("--strict", "fail if something would be lost, and write nothing")
PACKING: Final = (
    option(
        "--zarr-format", "version of Zarr to write; 2 unless it is packed", type=int, choices=(2, 3)
    ),
    option("--packed", "cut large arrays into small chunks and compress them (Zarr v3 and HDF5)"),
    option("--codec", "how to compress; blosc-zstd by default", choices=CODECS),
    option("--level", "from 1, fast, to 9 (zstd: 22), small", type=int),
    option(
        "--chunk-kb N",
        "about how many KiB of elements a chunk has; 8 by default, 64 for an import",
        type=int,
    ),
)
COUNTS_AS: Final = option(
    "--counts-as [NAME=]TYPE",
    "store the whole numbers of the main matrix, or of the matrix NAME, as uint8, uint16 "
    "or uint32: exactly, or not at all; repeatable",
    is_repeated=True,
)
MEMORY: Final = option(
    "--memory SIZE",
    "how much memory the elements of matrices may take on their way, such as 500MB; 16MiB "
    "or more (default: 1GiB)",
    type=memory_size,
    dest="memory_bytes",
)
PARAM: Final = option(
    "--param NAME=VALUE",
    'the value of $NAME in the SQL: JSON (60, true, [1, 2], "60") or text; repeatable',
    is_repeated=True,
)
REPORT_FORMAT: Final = option("--format", choices=("text", "json"), default="text")
OVERLAY: Final = option(
    "--overlay OVERLAY", "a data set on top of PATH, such as 'daf annotate' makes; it is only read"
)
AXIS_NAMES: Final = tuple(
    option(
        f"--{key}-is AXIS",
        f"what the axis of {key} of an AnnData is called (default: as it says, else {key})",
    )
    for key in ("obs", "var")
)
MATRIX: Final = option("--matrix NAME", required=True)
COLUMNS: Final = option("--columns WHICH", "the same for the other axis")
SLICE_AXES: Final = tuple(
    option(f"--{key}-axis AXIS", "needed where it is ambiguous") for key in ("rows", "columns")
)
NO_PROVENANCE: Final = option(
    "--no-provenance",
    "write no SQL, names and versions into .h5ad, .zarr, .parquet and .arrow files",
)
MAX_ROWS: Final = option(
    "--max-rows N",
    "rows of a table on a terminal (default: 10000 in a pager, else 40; 0: all)",
    type=whole_number,
)
NO_PAGER: Final = option(
    "--no-pager",
    "print long tables, of which 40 rows; on a terminal they are shown in $PAGER, or less",
)
