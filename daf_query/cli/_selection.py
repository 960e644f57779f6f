"""The meaning of arguments: queries, values, entries of axes, and axes of matrices."""

from __future__ import annotations

import itertools
import math
import os
from argparse import Namespace
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from daf_query.cli._later import json, matrix, session, sql, storage_data, stores, syntax, table
from daf_storage import errors

if TYPE_CHECKING:
    from daf_query.session import DafSession
    from daf_query.slice import MatrixSlice
    from daf_storage import DafReader

_STANDARD_INPUT: Final = "-"
_FILE: Final = "@"


def reading(options: Namespace) -> DafSession:
    """Connect the path of a command for reading, with the overlay if one is given."""
    skip_broken = getattr(options, "skip_broken", False)
    names: dict[str, Any] = {key: getattr(options, key, None) for key in ("obs_is", "var_is")}
    connected = session.connect(
        options.path,
        mode="r",
        overlay=options.overlay,
        provenance=not getattr(options, "no_provenance", True),
        skip_broken=skip_broken,
        **names,
    )
    if skip_broken and len(connected.members()) < len(session.matching_paths(options.path)):
        options.has_left_out = True
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
    values: dict[str, Any] = {}
    for each in given:
        name, separator, value = each.partition("=")
        name = name.removeprefix("$")
        if not separator or not name:
            raise errors.InvalidInputError(f"{option} {each}: write NAME=VALUE, as {example}")
        if name in values:
            raise errors.InvalidInputError(f"{option} {name} is given twice")
        values[name] = value_of(value)
    return values or None


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
    for empty in () if options.quiet else part.empty_selections:
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
    parts = [part.strip() for part in syntax.list_items(given)]
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
    """Return the axes of a matrix of which only the name is known: of the first that has it.

    Unless one of them is given, the rows are those of observations, which are concatenated.

    Raises
    ------
    AxisNotFoundError, MatrixNotFoundError
        There is none of this name.
    InvalidInputError
        There are several, and the given axes fit more than one.
    """
    given = {axis for axis in (rows_axis, columns_axis) if axis is not None}
    problems: list[errors.NotFoundError] = []
    for daf in readers:
        try:
            axes = _axes_of(daf, name, given)
        except (errors.AxisNotFoundError, errors.MatrixNotFoundError) as problem:
            problems.append(problem)
            continue
        is_given = axes[0] == rows_axis or axes[1] == columns_axis
        if not given and axes[0] != axes[1]:
            first = matrix.concatenated_of(readers, axes, None, location=daf.location)
            is_given = first == axes[0]
        return axes if is_given else axes[::-1]
    raise problems[0]


def _axes_of(daf: DafReader, name: str, given: set[str]) -> tuple[str, str]:
    """Return the axes of a matrix of one data set, in any order; the main ones, if that decides."""
    for axis in given:
        if not daf.has_axis(axis):
            raise errors.axis_not_found(daf.location, axis, daf.axes_set())
    every = itertools.combinations_with_replacement(storage_data.axes_in_order(daf), 2)
    pairs = [pair for pair in every if daf.has_matrix(*pair, name)]  # a damaged one, too
    if not pairs:
        available = {each.info.name for each in daf.summary().matrices}
        has = errors.shown_names(available, none="no matrices")
        raise errors.MatrixNotFoundError(
            f"{daf.location}: there is no matrix {name!r} (--matrix); there are {has}"
            f"{errors.nearest(name, available)}{sql.missing_base(daf)}"
        )
    fitting = [pair for pair in pairs if given <= set(pair)]
    if len(fitting) > 1:
        main = {str(daf.get_scalar(f"{key}_is", default=key)) for key in ("obs", "var")}
        fitting = [pair for pair in fitting if set(pair) == main]
    if len(fitting) != 1:
        listed = "; ".join(f"{rows} x {columns}" for rows, columns in pairs)
        raise errors.InvalidInputError(
            f"{daf.location}: matrix {name!r} exists for the axes {listed}; "
            "say which with --rows-axis and --columns-axis"
        )
    return fitting[0]
