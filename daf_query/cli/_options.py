"""How commands are declared, the options that several share, and what arguments mean.

**Nouns.** An *option* adds an option or an argument to a parser.  A *command* is its name, its
options and its function.  Arguments mean queries, values, entries of axes, and axes of matrices.
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import itertools
import json
import math
import os
import re
import sys
import textwrap
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from daf_query._formats import ROW_FORMATS
from daf_query.cli._later import matrix, session, slices, sql, storage_data, stores, syntax, table
from daf_storage import DafError, errors

if TYPE_CHECKING:
    from daf_query.session import DafSession
    from daf_query.slice import MatrixSlice
    from daf_storage import DafReader

_MOST: Final = 2**61
"""More rows than a table has; what is larger is no number of the engine."""
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


def named_share(text: str) -> tuple[str, float]:
    """Return the name of a split, and its share, as an argument has them.

    >>> named_share("train=.8")
    ('train', 0.8)
    """
    name, _, share = text.partition("=")
    try:
        return name, float(share if name else "")
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME=SHARE, as train=0.8") from None


_TYPES: Final = {"N": whole_number, "SIZE": byte_size, "NAME=SHARE": named_share}
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
        for word in itertools.takewhile("--".__ne__, arguments):
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
    words = [word for word in (*vars(options).values(), *rest) if isinstance(word, str)]
    paths = [Path(word) for word in words if os.path.exists(word) and Path(word).suffix]  # noqa: PTH110 - it may be too long
    if not hasattr(options, "skip_broken") or len(paths) < 2:
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
    values = {name: getattr(options, name, None) for name in names}
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
QUIET: Final = flag("--quiet", "no progress bar and no summary", "progress", "never", "auto")
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

_STANDARD_INPUT: Final = "-"
_FILE: Final = "@"


def reading(options: Namespace) -> DafSession:
    """Connect the path of a command for reading, with the overlay if one is given."""
    names: dict[str, Any] = given(options, "obs_is", "var_is", "skip_broken")
    connected = session.connect(
        options.path,
        mode="r",
        overlay=options.overlay,
        provenance=not getattr(options, "no_provenance", True),
        **names,
    )
    if names.get("skip_broken"):
        wanted = session.matching_paths(options.path)
        options.has_left_out = len(connected.members()) < len(wanted)
    return connected


def longest_axes(connected: DafSession) -> list[tuple[int, str, str]]:
    """Return the length, the schema and the name of each axis, the longest first."""
    axes = [
        (tables.axis_length(axis), schema, axis)
        for schema, tables in connected._connections.schemas.items()  # noqa: SLF001 - our own
        for axis in tables.axes_set()
    ]
    return sorted(axes, key=lambda each: (-each[0], *each[1:]))


def query_of(options: Namespace) -> str:
    """Return the query of ``daf sql``, which is given in one of three ways."""
    if options.query is not None and options.query != _STANDARD_INPUT:
        if os.path.exists(options.query):  # noqa: PTH110 - a query may be too long for a Path
            raise errors.InvalidInputError(f"{options.query} is a file: write daf sql PATH QUERY")
        options.written, source = options.query, "the query"
    else:
        path = options.query if options.file is None else options.file
        source = "standard input" if path == _STANDARD_INPUT else path
        options.written = read_text(path)
    return syntax.one_statement(options.written, source=source)


def read_text(path: str) -> str:
    """Return the text of a file, or of standard input for ``-``.

    Raises
    ------
    SourceNotFoundError
        There is no such file.
    InvalidInputError
        It is not UTF-8.
    """
    where = "standard input" if path == _STANDARD_INPUT else path
    with (
        stores.os_errors(where),
        open(0 if path == _STANDARD_INPUT else path, "rb", closefd=path != _STANDARD_INPUT) as file,
    ):
        data = file.read()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise errors.InvalidInputError(
            f"{where}: this is not UTF-8 text (byte {error.start:,}); save the file as UTF-8"
        ) from error


def named_table(given: str) -> tuple[str | None, str]:
    """Return the name and the path of a table: ``NAME=FILE`` or ``FILE``.

    >>> named_table("samples=data/s.csv"), named_table("s.csv")
    (('samples', 'data/s.csv'), (None, 's.csv'))
    """
    name, separator, path = given.partition("=")
    return (name, path) if separator else (None, given)


def check_table(path: str, option: str) -> None:
    """Refuse a file that is no table."""
    if not table.is_user_table(path):
        raise errors.InvalidInputError(
            f"{option} {path}: a table is a .csv, .csv.gz, .tsv, .parquet or .arrow file"
        )


def named_values(
    given: Iterable[str], *, option: str = "--param", example: str = "least=60"
) -> dict[str, Any] | None:
    """Return the values of parameters: ``NAME=VALUE``, of which the value may be JSON.

    >>> named_values(["least=60", "donor=N3", 'code="60"', "types=[1, 2]"])
    {'least': 60, 'donor': 'N3', 'code': '60', 'types': [1, 2]}

    Raises
    ------
    InvalidInputError
        There is no name, or a name is given twice.
    """
    strings = named_strings(given, option=option, example=example)
    return {name: value_of(text) for name, text in strings.items()} or None


def named_strings(given: Iterable[str], *, option: str, example: str) -> dict[str, str]:
    """Return what follows each name in ``NAME=VALUE``.

    Raises
    ------
    InvalidInputError
        There is no name, or a name is given twice.
    """
    strings: dict[str, str] = {}
    for each in given:
        name, separator, text = each.partition("=")
        name = name.removeprefix("$")
        if not separator or not name:
            raise errors.InvalidInputError(f"{option} {each}: write NAME=VALUE, as {example}")
        if name in strings:
            raise errors.InvalidInputError(f"{option} {name} is given twice")
        strings[name] = text
    return strings


def value_of(text: str | None) -> Any:
    """Return what JSON means; any other text is itself, and none is None.

    Raises
    ------
    InvalidInputError
        It is nested too deeply to be read.
    """
    if text is None:
        return None
    try:
        return json.loads(text, parse_constant=str)  # NaN and Infinity are no JSON
    except (ValueError, RecursionError):
        return text


def selected(
    connected: DafSession, options: Namespace, *, join: str | None = None
) -> tuple[tuple[str, str], dict[str, Any]]:
    """Return the axes of the matrix of a command, and which part of it is meant, as keywords.

    Parameters
    ----------
    join
        How several data sets become one by default; None if the command does not ask.
    """
    readers = list(connected.members().values())
    options.matrix = options.matrix or str(readers[0].get_scalar("X_is", default="X"))
    axes = matrix_axes(readers, options.matrix, options.rows_axis, options.columns_axis)
    chosen: dict[str, Any] = {
        "rows": entries_or_sql(readers, axes[0], options.rows),
        "columns": entries_or_sql(readers, axes[1], options.columns),
        "params": named_values(options.param),
    }
    if join is not None:
        is_nan = options.fill_value is not None and options.fill_value.lower() == "nan"
        chosen["join"] = options.join or join
        chosen["fill_value"] = math.nan if is_nan else value_of(options.fill_value)
        chosen["along"] = options.along
    return axes, chosen


def slice_of(
    connected: DafSession, options: Namespace, *, join: str | None = None, **more: Any
) -> MatrixSlice:
    """Return the slice that a command names; warn of each predicate that selects nothing."""
    axes, chosen = selected(connected, options, join=join)
    part = connected.matrix(*axes, options.matrix, **chosen | more)
    for empty in () if options.progress == "never" else part.empty_selections:
        errors.warn(f"{options.path}: {empty}", errors.DafWarning)
    return part


def entries_or_sql(
    readers: Sequence[DafReader], axis: str, given: str | None
) -> str | list[str] | None:
    """Return SQL as it is, and names as a list.

    Names are ``A,B``, the lines of ``@FILE``, or a single one that is an entry and neither a vector
    nor a condition of several words.  One with a comma is written in single quotes, or stands in a
    file.
    """
    if given is None or syntax.is_select(given):
        return given
    if given.startswith(_FILE):
        return _lines(given.removeprefix(_FILE))
    names = listed_names(given)
    if names is not None:
        return names
    return [given] if _is_entry(readers, axis, given) else given


def listed_names(given: str) -> list[str] | None:
    """Return the names of a comma list; None if it is SQL.

    >>> listed_names("MS4A1, CD8A"), listed_names("'a,b',"), listed_names("age IN (1, 2)")
    (['MS4A1', 'CD8A'], ['a,b'], None)
    """
    parts = syntax.list_items(given)
    if len(parts) == 1 or syntax.is_condition(given):
        return None
    return [_unquoted(part) for part in parts if part]


def _unquoted(name: str) -> str:
    is_quoted = len(name) > 1 and name[0] == name[-1] == "'"
    return name[1:-1].replace("''", "'") if is_quoted else name


def _is_entry(readers: Sequence[DafReader], axis: str, given: str) -> bool:
    having = [daf for daf in readers if daf.has_axis(axis)]
    is_sql = given.upper() in ("TRUE", "FALSE") or (" " in given and syntax.is_condition(given))
    if is_sql or any(given in daf.vectors_set(axis) for daf in having):  # name and index are none
        return False
    return any(
        daf.axis_indices(axis, [given], allow_missing=True, allow_empty=True)[0] >= 0
        for daf in having
    )


def _lines(path: str) -> list[str]:
    names = [line for line in read_text(path).splitlines() if line]
    if not names:
        raise errors.InvalidInputError(f"{path or 'the file'}: there is no name in it, one a line")
    return names


def matrix_axes(
    readers: Sequence[DafReader], name: str, rows_axis: str | None, columns_axis: str | None
) -> tuple[str, str]:
    """Return the axes of a matrix of which only the name is known; the main ones, if that decides.

    Unless one of them is given, the rows are those of observations, which are concatenated.

    Raises
    ------
    AxisNotFoundError, MatrixNotFoundError
        There is none of this name.
    InvalidInputError
        There are several, and the given axes fit more than one.
    """
    first, given = readers[0], {axis for axis in (rows_axis, columns_axis) if axis is not None}
    for axis in given:
        if not any(daf.has_axis(axis) for daf in readers):
            raise errors.axis_not_found(first.location, axis, first.axes_set())
    pairs = {
        frozenset(pair): pair
        for daf in readers
        for pair in itertools.combinations_with_replacement(storage_data.axes_in_order(daf), 2)
        if daf.has_matrix(*pair, name)  # a damaged one, too
    }
    if not pairs:
        available = {each.info.name for daf in readers for each in daf.summary().matrices}
        has = errors.shown_names(available, none="no matrices")
        raise errors.MatrixNotFoundError(
            f"{first.location}: there is no matrix {name!r} (--matrix); there are {has}"
            f"{errors.nearest(name, available)}{sql.missing_base(first)}"
        )
    fitting = [pair for axes, pair in pairs.items() if given <= axes]
    if len(fitting) > 1:
        main = {str(first.get_scalar(f"{key}_is", default=key)) for key in ("obs", "var")}
        fitting = [pair for pair in fitting if set(pair) == main]
    if len(fitting) != 1:
        listed = "; ".join(f"{rows} x {columns}" for rows, columns in pairs.values())
        raise errors.InvalidInputError(
            f"{first.location}: matrix {name!r} exists for the axes {listed}; "
            "say which with --rows-axis and --columns-axis"
        )
    axes = fitting[0]
    is_given = axes[0] == rows_axis or axes[1] == columns_axis
    if not given and axes[0] != axes[1]:
        along = matrix.concatenated_of(readers, axes, None, location=first.location)
        is_given = along == axes[0]
    return axes if is_given else axes[::-1]
