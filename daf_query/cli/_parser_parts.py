"""Parsers of commands: their help, and the options that several of them have.

Must not import what it parses for; what a size is, it asks when one is given.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from daf_storage import DafError
from daf_storage.spi import lazy_module

if TYPE_CHECKING:
    from daf_query import slice as slices
else:
    slices = lazy_module("daf_query.slice")

CODECS: Final = ("blosc-zstd", "blosc-lz4", "blosc-zstd-shuffle", "zstd", "gzip")
_LONGEST_NAME: Final = 256
"""No file has a longer one; a query may be longer."""
LEAST_MEMORY_BYTES: Final = 1 << 24
"""What `daf_storage` asks for; a test compares the two."""


class Help(argparse.RawDescriptionHelpFormatter):
    """Keeps the examples as they are written."""


class Parser(argparse.ArgumentParser):
    """A parser of which an optional argument may come after the options, too.

    Options are written in full: an abbreviation would mean something else, or nothing, as soon as a
    command gets another option.
    """

    one_of: tuple[str, ...] = ()
    """Arguments of which exactly one has to be given."""
    any_of: tuple[str, ...] = ()
    """Arguments of which at least one has to be given."""
    takes_patterns: bool = False
    """Whether its path may be a pattern, for several data sets as one."""
    has_prompt: bool = False
    """Whether none of `one_of` is given for a prompt, which needs a terminal."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{**kwargs, "allow_abbrev": False})

    def parse_known_args(  # type: ignore[override] # the overloads say the same of any namespace
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse the arguments that are known."""
        options, rest = super().parse_known_args(args, namespace)
        self._refuse_unknown(rest)
        for action in self._get_positional_actions():
            late = next((word for word in rest if " " in word or not word.startswith("-")), None)
            is_missing = getattr(options, action.dest, None) == action.default
            if action.nargs == "?" and is_missing and late is not None:
                setattr(options, action.dest, late)
                rest.remove(late)
        self._refuse_more(options, rest)
        count = sum(getattr(options, name) is not None for name in self.one_of)
        is_prompt = self.has_prompt and count == 0
        if self.one_of and count != 1 and not (is_prompt and is_terminal()):
            choices = " and ".join(map(self._shown, self.one_of))
            why = "; without one this is a prompt, which needs a terminal" if is_prompt else ""
            self.error(f"give one of {choices}{why}")
        if self.any_of and not any(getattr(options, name) for name in self.any_of):
            self.error(f"give {' or '.join(map(self._shown, self.any_of))}")
        return options, rest

    def _refuse_unknown(self, rest: Sequence[str]) -> None:
        """Refuse options that there are not, with those that begin or read like them."""
        for word in rest:
            name = word.partition("=")[0]
            if not name.startswith("--") or " " in name:
                continue
            known = sorted(each for each in self._option_string_actions if each.startswith("--"))
            near = [each for each in known if each.startswith(name)]
            near = near or difflib.get_close_matches(name, known, n=3)
            self.error(f"there is no option {name}{'; ' if near else ''}{meant(near)}")

    def _refuse_more(self, options: Any, rest: Sequence[str]) -> None:
        """Refuse what is too much, such as the files that a shell made of a pattern."""
        if not rest:
            return
        given = [getattr(options, action.dest, None) for action in self._get_positional_actions()]
        words = [Path(word) for word in (*given, *rest) if isinstance(word, str)]
        paths = [path for path in words if path.suffix and len(path.name) < _LONGEST_NAME]
        hint = ""
        if self.takes_patterns and sum(path.exists() for path in paths) > 1:
            pattern = paths[0].with_name(f"*{paths[0].suffix}")
            hint = f"; several data sets are one pattern, in quotes: '{pattern}'"
        self.error(f"unrecognized arguments: {' '.join(rest)}{hint}")

    def _shown(self, name: str) -> str:
        action = next(action for action in self._actions if action.dest == name)
        metavar = [] if action.metavar is None else [str(action.metavar)]
        return " ".join([*action.option_strings[:1], *metavar])


def meant(names: Sequence[str]) -> str:
    """Return the question whether one of some options is meant; empty if there is none.

    >>> meant(["--rows"]), meant(["--max-rows", "--max-bytes"]), meant([])
    ('do you mean --rows?', 'do you mean --max-rows or --max-bytes?', '')
    """
    return f"do you mean {' or '.join(names)}?" if names else ""


def is_terminal() -> bool:
    """Return whether standard input and output are a terminal."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"  # noqa: SLF001 - the only name it has
"""Where commands are added."""


def add_command(
    commands: Commands,
    name: str,
    summary: str,
    examples: str,
) -> Parser:
    return commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"examples:\n{examples}",
        formatter_class=Help,
    )


def add_strict(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--strict", action="store_true", help="fail if something would be lost, and write nothing"
    )


def add_packing(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how a new data set is written."""
    parser.add_argument(
        "--zarr-format",
        type=int,
        choices=(2, 3),
        help="version of Zarr to write; 2 unless it is packed",
    )
    parser.add_argument(
        "--packed",
        action="store_true",
        help="cut large arrays into small chunks and compress them (Zarr v3 and HDF5)",
    )
    parser.add_argument("--codec", choices=CODECS, help="how to compress; blosc-zstd by default")
    parser.add_argument("--level", type=int, help="from 1, fast, to 9 (zstd: 22), small")
    parser.add_argument(
        "--chunk-kb",
        metavar="N",
        type=int,
        help="about how many KiB of elements a chunk has; 8 by default, 64 for an import",
    )


def add_counts(parser: argparse.ArgumentParser) -> None:
    """Add ``--counts-as``."""
    parser.add_argument(
        "--counts-as",
        metavar="[NAME=]TYPE",
        action="append",
        default=[],
        help="store the whole numbers of the main matrix, or of the matrix NAME, as uint8, uint16 "
        "or uint32: exactly, or not at all; repeatable",
    )


def add_param(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--param",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help='the value of $NAME in the SQL: JSON (60, true, [1, 2], "60") or text; repeatable',
    )


def add_format(parser: argparse._ActionsContainer, what: str | None = None) -> None:
    """Add ``--format``."""
    parser.add_argument("--format", choices=("text", "json"), default="text", help=what)


def add_overlay(parser: Parser) -> None:
    """Add ``--overlay``."""
    parser.add_argument(
        "--overlay",
        metavar="OVERLAY",
        help="a data set on top of PATH, such as 'daf annotate' makes; it is only read",
    )


def add_axis_names(parser: Parser) -> None:
    """Add ``--obs-is`` and ``--var-is``."""
    for key, default in (("obs", "obs"), ("var", "var")):
        parser.add_argument(
            f"--{key}-is",
            metavar="AXIS",
            help=f"what the axis of {key} of an AnnData is called (default: as it says, else "
            f"{default})",
        )


def add_no_provenance(parser: Parser) -> None:
    """Add ``--no-provenance``."""
    parser.add_argument(
        "--no-provenance",
        action="store_true",
        help="write no SQL, names and versions into .h5ad, .zarr, .parquet and .arrow files",
    )


def add_max_rows(parser: Parser) -> None:
    """Add ``--max-rows``."""
    parser.add_argument(
        "--max-rows",
        type=whole_number,
        metavar="N",
        help="rows of a table on a terminal (default: 10000 in a pager, else 40; 0: all)",
    )


def add_no_pager(parser: Parser) -> None:
    """Add ``--no-pager``."""
    parser.add_argument(
        "--no-pager",
        action="store_true",
        help="print long tables, of which 40 rows; on a terminal they are shown in $PAGER, or less",
    )


def add_quiet(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="no progress bar and no summary")


def whole_number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number, 0 or more")
    return int(text)


def add_join(parser: argparse.ArgumentParser, default: str) -> None:
    """Add what says how several data sets become one; PATH is then a pattern of paths."""
    parser.add_argument(
        "--join",
        choices=("inner", "outer"),
        help="of a pattern of paths: the columns that all data sets have, or any (default: "
        f"{default})",
    )
    parser.add_argument(
        "--fill-value",
        metavar="VALUE",
        help="of a pattern of paths: what stands where a data set lacks a column",
    )
    parser.add_argument(
        "--along",
        metavar="AXIS",
        help="of a pattern of paths: the axis whose entries are put one after the other (default: "
        "that of the observations)",
    )


def byte_size(text: str) -> int:
    """Return a number of bytes, as an argument names it."""
    try:
        return slices.byte_count(text, keyword="size")
    except DafError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_memory(parser: argparse.ArgumentParser) -> None:
    """Add ``--memory``."""
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        type=memory_size,
        help="how much memory the elements of matrices may take on their way, such as 500MB; 16MiB "
        "or more (default: 1GiB)",
    )


def memory_size(text: str) -> int:
    """Return how much memory may be taken, as an argument names it."""
    size_bytes = byte_size(text)
    if size_bytes < LEAST_MEMORY_BYTES:
        raise argparse.ArgumentTypeError(f"{text!r} is not enough to work with: give 16MiB or more")
    return size_bytes
