"""Rows, slices and profiles that are stored: as vectors, as new axes, as matrices.

Of vectors, numbers, booleans and strings are stored; missing numbers are NaN, missing strings empty
ones that count as missing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.matrix import Positions, each_once
from daf_query.profile import Profile
from daf_query.scan import INDEX, NAME, numpy_type
from daf_query.slice import AxisRows, MatrixSlice, positions_in
from daf_query.sql import STRINGS, Engine, Params, QueryResult, bind, computed_table, query_result
from daf_query.syntax import is_select
from daf_query.table import arrow_table, is_user_table, user_table
from daf_storage import DafReader, DafWriter, IfExists, base, errors
from daf_storage._lazy import pc, sp
from daf_storage.anndata import note_categories

_STORED_AS: Final = {pa.string_view(): pa.string(), pa.float16(): pa.float32()}
_MOST_EXAMPLES: Final = 5


def storable(column: pa.Array | pa.ChunkedArray, what: str, rows: str) -> pa.Array:
    """Return values of a type that is stored; missing numbers are NaN, missing strings null.

    Parameters
    ----------
    what, rows
        What is to be stored, and what it has a value for, for messages.

    Raises
    ------
    UnsupportedDataError
        There is no such type of stored values.
    QueryError
        A value is missing that is neither a float nor a string.
    """
    values: Any = one_array(column)
    values = values.cast(_STORED_AS.get(values.type, values.type))
    kind = values.type
    is_floating, is_string = pa.types.is_floating(kind), kind in STRINGS
    if not (is_floating or is_string or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise errors.UnsupportedDataError(
            f"{what} cannot hold {kind}; CAST it to VARCHAR or DOUBLE"
        )
    if not values.null_count:
        return values
    if is_string:
        if pc.any(pc.equal(values, "")).as_py():
            raise errors.QueryError(
                f"the query yields NULL for some {rows} and '' for others, and both would be "
                "stored as ''; coalesce() makes all of them '', nullif(..., '') all of them NULL"
            )
        return values
    if not is_floating:
        raise errors.QueryError(
            f"the query yields NULL for {values.null_count:,} {rows}, which only floats can be (as "
            "NaN), and strings; use coalesce(), or CAST it to DOUBLE"
        )
    return pc.fill_null(values, float("nan"))


def one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array of plain values, without dictionary."""
    kind = column.type
    return base.one_array(column.cast(kind.value_type) if pa.types.is_dictionary(kind) else column)


def repeated(values: pa.Array) -> pa.Array:
    """Return the values that occur more than once, each once."""
    counts = pc.value_counts(values)
    return pc.filter(counts.field("values"), pc.greater(counts.field("counts"), 1))


def refuse_existing(daf: DafWriter, what: str, *, exists: bool, if_exists: IfExists) -> None:
    """Raise if something is there that is not to be replaced, before anything is computed."""
    if exists and if_exists == "error":
        raise errors.property_exists(daf.location, what, is_append_only=daf.is_append_only)


def set_vector(
    daf: DafWriter, axis: str, name: str, values: pa.Array, *, if_exists: IfExists
) -> None:
    """Store a vector; strings that are null become empty ones that count as missing."""
    has_missing = values.null_count > 0
    stored = values.fill_null("") if has_missing else values
    daf.set_vector(axis, name, stored, if_exists=if_exists, empty_is_missing=has_missing)


def rows_of(
    engine: Engine, rows: Any, params: Params | None, *, strings: Sequence[str] | None = None
) -> pa.Table:
    """Return the rows of a query, of a result, or of a data frame.

    Parameters
    ----------
    strings
        Where it may be a file: its columns that are strings also if they look like numbers.
    """
    is_path = strings is not None and isinstance(rows, str | Path)
    # A query may be longer than a path, which is an error of Path.is_file.
    is_file = is_path and (is_user_table(rows) or os.path.isfile(rows) or isinstance(rows, Path))  # noqa: PTH113
    if isinstance(rows, str) and not is_file:
        if not rows.strip():
            raise errors.QueryError("the query is empty; write a SELECT")
        return query_result(engine, bind(rows, params), allow="read").to_arrow_table()
    if params is not None:
        raise errors.InvalidInputError(
            "params= are of a query that is passed as a string; a result, a data frame or a file "
            "has its values already"
        )
    if is_file:
        found = user_table(rows, strings=strings or ()).rows
        return found if isinstance(found, pa.Table) else found.to_table()
    return rows.to_arrow_table() if isinstance(rows, QueryResult) else arrow_table(rows)


def derived_vector(engine: Engine, schema: str, axis: str, query: str) -> pa.Array:
    """Return the values of a query for the entries of an axis, in its order.

    Parameters
    ----------
    query
        An expression of the columns of the axis, or a SELECT that yields ``name`` or ``index``
        and one other column, for each entry once.
    """
    if not query.strip():
        raise errors.QueryError("the query is empty; write an expression, or a SELECT")
    rows = AxisRows.of(engine, schema, axis)
    what = f"a vector of axis {axis!r}", f"entries of axis {axis!r}"
    if not is_select(query):
        return storable(rows.values(query), *what)
    whole, table = rows.whole, computed_table(engine.plan(query, once=(INDEX, NAME)))
    values = [name for name in table.column_names if name not in (NAME, INDEX)]
    if len(values) != 1:
        raise errors.QueryError(
            f"a vector needs one column of values beside {NAME!r} or {INDEX!r}; the query yields "
            f"{', '.join(table.column_names)}"
        )
    positions = positions_in(whole, table, "query")
    counts = np.bincount(positions, minlength=whole.length)
    for problem, wrong, advice in (
        ("lacks", counts == 0, "a LEFT JOIN from the axis and coalesce() give the others a value"),
        ("has more than one row for", counts > 1, "GROUP BY its name"),
    ):
        if wrong.any():
            first = whole.entries_at(np.flatnonzero(wrong)[:1])[0].as_py()
            raise errors.QueryError(
                f"the query {problem} {int(wrong.sum()):,} of {len(counts):,} entries of axis "
                f"{axis!r}, the first is {first!r}; {advice}"
            )
    column = table.column(values[0]).take(pa.array(np.argsort(positions)))
    return storable(column, *what)


def add_derived_axis(
    daf: DafWriter, axis: str, table: pa.Table, *, name: str, if_exists: IfExists
) -> None:
    """Store an axis whose entries are a column of a table, and whose vectors are the others."""
    columns = table.column_names
    if name not in columns:
        raise errors.QueryError(
            f"the entries of axis {axis!r} are to be the column {name!r}, and the query yields "
            f"{', '.join(columns)}; write AS {name}, or say which column with name="
        )
    for reserved in {NAME, INDEX} & set(columns) - {name}:
        raise errors.QueryError(
            f"the query yields a column {reserved!r}, and axis {axis!r} has one of this name by "
            f"itself: the {'positions' if reserved == INDEX else 'entries'}; leave it out, or name "
            "it otherwise with AS"
        )
    entries = _entries(table.column(name), axis, name)
    vectors = {}
    for column in columns:
        if column != name:
            what = f"vector {column!r} of axis {axis!r}"
            vectors[column] = storable(table.column(column), what, f"values of {what}")
    missing = tuple(column for column, values in vectors.items() if values.null_count)
    for column in missing:
        vectors[column] = vectors[column].fill_null("")
    daf.add_axis(axis, entries, if_exists=if_exists, vectors=vectors, empty_is_missing=missing)


def _entries(column: pa.ChunkedArray, axis: str, name: str) -> pa.Array:
    entries = one_array(column)
    if entries.type not in STRINGS:
        raise errors.QueryError(
            f"the entries of axis {axis!r} have to be strings, and the column {name!r} holds "
            f"{entries.type}; CAST it to VARCHAR"
        )
    if entries.null_count:
        first = pc.index(pc.is_null(entries), True).as_py()
        raise errors.QueryError(
            f"the query yields NULL as {name!r} in {entries.null_count:,} of {len(entries):,} "
            f"rows, the first is row {first + 1:,}; every entry of axis {axis!r} needs a name: "
            f"add WHERE ... IS NOT NULL, or coalesce()"
        )
    twice = repeated(entries)
    if len(twice):
        raise errors.DuplicateEntriesError(
            f"the query yields {len(twice):,} of the names more than once, the first is "
            f"{twice[0].as_py()!r}; each entry of axis {axis!r} is one row: GROUP BY the name"
        )
    return entries


@dataclass(frozen=True, slots=True)
class Annotation:
    """What was stored of a table, and which of its rows found no entry."""

    axis: str
    """The axis that was annotated."""
    vectors: Mapping[str, str]
    """The vectors that were stored, with their types."""
    entries: int
    """How many entries the axis has."""
    matched: int
    """How many of them have a row."""
    unmatched_keys: int
    """How many rows have a key that is no entry, or none."""
    examples: tuple[str, ...]
    """The first few of these keys."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain Python, for JSON."""
        return {**asdict(self), "examples": list(self.examples)}

    def __str__(self) -> str:
        stored = ", ".join(f"{name} ({kind})" for name, kind in self.vectors.items())
        text = f"{stored}: {self.matched:,} of {self.entries:,} entries of {self.axis} have a row"
        return f"{text}; {self.unmatched}" if self.unmatched_keys else text

    @property
    def unmatched(self) -> str:
        """Which keys are no entries."""
        are_no = "key is no entry" if self.unmatched_keys == 1 else "keys are no entries"
        more = ", ..." if self.unmatched_keys > len(self.examples) else ""
        shown = ", ".join(map(repr, self.examples)) + more
        return f"{self.unmatched_keys:,} {are_no} of {self.axis}: {shown}"


def annotate(  # noqa: PLR0913 - how a table is read
    daf: DafWriter,
    axis: str,
    table: pa.Table,
    key: str | None,
    columns: Sequence[str] | Mapping[str, str] | None,
    fill: Mapping[str, Any],
    *,
    is_strict: bool,
    if_exists: IfExists,
) -> Annotation:
    """Store columns of a table as vectors; see `Writing.annotate`.

    Nothing is stored if one of them is refused.
    """
    unnamed = [name for name in table.column_names[:1] if not name]  # the index, if pandas wrote it
    index = (table.schema.pandas_metadata or {}).get("index_columns", unnamed)
    labels = [n for n in index if n in table.column_names and table.column(n).type in STRINGS]
    labels = [NAME] if NAME in table.column_names else labels
    if key is None and len(labels) != 1:
        raise errors.InvalidInputError(
            f"say which column has the entries with key=; there are {', '.join(table.column_names)}"
        )
    key = labels[0] if key is None else key
    named = _chosen(table, key, columns)
    for name in fill:
        if name not in named:
            raise errors.InvalidInputError(
                f"fill= has a value for {name!r}, which is none of the vectors {', '.join(named)}"
            )
    keys, rows = _rows_of_entries(daf, axis, table, key)
    unmatched = np.setdiff1d(np.arange(len(keys)), rows)
    examples = tuple(str(keys[int(number)].as_py()) for number in unmatched[:_MOST_EXAMPLES])
    matched = int(np.count_nonzero(rows >= 0))
    found = Annotation(axis, {}, rows.size, matched, unmatched.size, examples)
    if is_strict and unmatched.size:
        raise errors.EntryNotFoundError(f"{daf.location}: {found.unmatched}; nothing was stored")
    vectors, categoricals = {}, {}
    for name, column in named.items():
        values = table.column(column).unify_dictionaries()
        if pa.types.is_dictionary(values.type) and values.type.value_type in STRINGS:
            listed = values.chunk(0).dictionary.to_pylist() if values.num_chunks else []
            categoricals[name] = listed, values.type.ordered
        what = f"vector {name!r} of axis {axis!r}"
        refuse_existing(daf, what, exists=daf.has_vector(axis, name), if_exists=if_exists)
        vectors[name] = _values(values, rows, name, axis, fill)
    with daf.batch():
        for name, values in vectors.items():
            set_vector(daf, axis, name, values, if_exists=if_exists)
        if categoricals:
            note_categories(daf, axis, categoricals)
    kinds = {name: daf.vector_info(axis, name).storage_type.value for name in vectors}
    return replace(found, vectors=kinds)


def _chosen(
    table: pa.Table, key: str, columns: Sequence[str] | Mapping[str, str] | None
) -> dict[str, str]:
    """Return the column of each vector; by default all but the key."""
    if isinstance(columns, str):
        columns = [columns]
    if columns is None:
        # What pandas calls an index without a name; in a CSV it is the first column, with none.
        left_out = (key, "__index_level_0__")
        columns = [n for at, n in enumerate(table.column_names) if n not in left_out and (at or n)]
    named = dict(columns) if isinstance(columns, Mapping) else {name: name for name in columns}
    if not named:
        raise errors.InvalidInputError(f"the table has no column beside the key {key!r}")
    for column in (key, *named.values()):
        if column not in table.column_names:
            has = errors.choices(column, table.column_names)
            raise errors.InvalidInputError(f"the table has no column {column!r}; it has {has}")
    for reserved in {NAME, INDEX} & set(named):
        raise errors.InvalidNameError(
            f"no vector can be called {reserved!r}, since every axis has one of this name; pass "
            f"columns={{'other': {reserved!r}}}, or only the columns that are meant"
        )
    return named


def _rows_of_entries(
    daf: DafReader, axis: str, table: pa.Table, key: str
) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Return the keys of the rows, and the number of the row of each entry, or -1."""
    keys = one_array(table.column(key))
    if keys.type not in STRINGS and not pa.types.is_integer(keys.type):
        raise errors.InvalidInputError(
            f"the key {key!r} holds {keys.type}, and the entries of an axis are strings; CAST it"
        )
    keys = pc.fill_null(keys.cast(pa.large_string()), "")
    positions = daf.axis_indices(axis, keys, allow_empty=True, allow_missing=True)
    length = daf.axis_length(axis)
    found = np.flatnonzero(positions >= 0)
    rows = np.full(length, -1, np.int64)
    rows[positions[found]] = found
    twice = found[rows[positions[found]] != found]
    if twice.size:
        raise errors.DuplicateEntriesError(
            f"{np.unique(positions[twice]).size:,} entries of axis {axis!r} have more than one row "
            f"of key {key!r}, the first is {keys[int(twice[0])].as_py()!r}; leave one row for each"
        )
    if length and not found.size:
        first = daf.get_pa_vector(axis, NAME)[0].as_py()
        shown = repr(keys[0].as_py()) if len(keys) else "no rows"
        raise errors.EntryNotFoundError(
            f"{daf.location}: no key {key!r} of the table is an entry of axis {axis!r}: the table "
            f"has {shown}, the axis {first!r}; nothing was stored"
        )
    return keys, rows


def _values(
    column: pa.ChunkedArray, rows: Any, name: str, axis: str, fill: Mapping[str, Any]
) -> pa.Array:
    """Return the values of a column in the order of the axis, in a type that is stored."""
    what = f"vector {name!r} of axis {axis!r}"
    plain = one_array(column)
    kind = plain.type
    if pa.types.is_temporal(kind) or pa.types.is_null(kind) or kind == pa.string_view():
        plain = plain.cast(pa.string())
    elif pa.types.is_decimal(kind):
        plain = plain.cast(pa.float64())
    values = plain.take(pa.array(rows, mask=rows < 0))
    if fill.get(name) is not None:
        filled = _fitting(fill[name], numpy_type(values.type), what)
        values = pc.fill_null(values, pa.scalar(filled.item(), values.type))
    lacking = f"{what} has no value for {values.null_count:,} entries"
    if values.null_count and pa.types.is_boolean(values.type):
        raise errors.InvalidInputError(
            f"{lacking}, and a Bool cannot be missing; say with fill= which value {name!r} has "
            "there"
        )
    if values.null_count and pa.types.is_integer(values.type):
        try:
            values = values.cast(pa.float64())
        except pa.ArrowInvalid as error:
            largest = max(pc.min_max(values).as_py().values(), key=abs)
            raise errors.InvalidInputError(
                f"{lacking}, so it is stored as floats, which cannot hold {largest:,}; pass fill=, "
                "or store strings"
            ) from error
    if values.null_count and values.type in STRINGS:
        values = pc.if_else(pc.equal(values, ""), pa.scalar(None, values.type), values)
    return storable(values, what, f"entries of axis {axis!r}")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a matrix is to be stored, and the value of elements that are not given."""

    daf: DafReader
    axes: tuple[str, str]
    """The axis of its rows, and that of its columns."""
    name: str
    fill: Any = None

    @property
    def what(self) -> str:
        """The matrix as messages name it."""
        return f"matrix {self.name!r} of axes {self.axes[0]!r} and {self.axes[1]!r}"

    @property
    def shape(self) -> tuple[int, int]:
        """Lengths of the two axes."""
        return self.daf.axis_length(self.axes[0]), self.daf.axis_length(self.axes[1])

    def placed(
        self, shape: tuple[int, int], values: Any, rows: Positions, columns: Positions
    ) -> npt.NDArray[Any]:
        """Return a dense matrix with values at some rows and columns, and elsewhere ``fill``."""
        counts = each_once(rows).size, each_once(columns).size
        if counts != shape and self.fill is None:
            listed = " x ".join(
                f"{count:,} of {length:,} {axis}"
                for count, length, axis in zip(counts, shape, self.axes, strict=True)
            )
            raise errors.InvalidInputError(
                f"there are values for {listed}, and a dense matrix has one for each; pass fill= "
                "for the others"
            )
        matrix = self.empty(shape, values.dtype, is_filled=counts != shape)
        matrix[np.ix_(rows, columns)] = values
        return matrix

    def empty(self, shape: tuple[int, int], dtype: Any, *, is_filled: bool) -> npt.NDArray[Any]:
        """Return an array, filled with ``fill`` if it is not about to be set as a whole."""
        if not is_filled:
            return np.empty(shape, dtype, order="F")
        return np.full(shape, _fitting(self.fill, dtype, self.what), dtype, order="F")


def _fitting(fill: Any, dtype: np.dtype[Any], what: str) -> Any:
    """Return the value of what is not given, in a dtype that holds it; floats may be rounded.

    Raises
    ------
    InvalidInputError
        It does not fit, or is no single value.

    Examples
    --------
    >>> fits = [(0.1, "f4"), (np.inf, "f4"), (2, "i1"), (2.0, "i1"), (True, "?"), ("a", "O")]
    >>> [_fitting(fill, np.dtype(dtype), "x").item() for fill, dtype in fits]
    [0.10000000149011612, inf, 2, 2, True, 'a']
    >>> from contextlib import suppress
    >>> lacking = [(1e300, "f4"), (300, "i1"), (2.5, "i1"), (True, "i1"), (1, "O"), ([1], "i1")]
    >>> for fill, dtype in lacking:
    ...     with suppress(errors.InvalidInputError):
    ...         print(_fitting(fill, np.dtype(dtype), "x"))
    """
    of_strings, is_rounded = dtype.kind == "O", dtype.kind == "f"
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            filled = np.asarray(fill).astype(dtype)
        is_rounded &= isinstance(fill, float | np.floating) and np.isinf(filled) == np.isinf(fill)
        is_alike = isinstance(fill, str) == of_strings and not filled.ndim
        if isinstance(fill, bool | np.bool_) > (dtype.kind == "b"):
            is_alike = False  # True is no number, though it equals one
        if is_alike and (is_rounded or filled.item() == fill):
            return filled
    except (OverflowError, TypeError, ValueError):
        pass
    raise errors.InvalidInputError(
        f"fill={fill!r} does not fit {what}, whose values are "
        f"{'strings' if of_strings else dtype}; pass a value of that type"
    )


def matrix_of_slice(place: Place, part: MatrixSlice) -> Any:
    """Return the elements of a slice at the positions of its rows and columns.

    All others are zero where the slice is sparse, and else ``fill``.
    """
    if part.of_several:
        raise errors.InvalidInputError(
            f"{part.whole.location}: this slice of {part.name!r} is of several data sets, whose "
            "entries may have the same names; daf_storage.concatenate() and daf concat write them "
            "as one data set"
        )
    with part.whole.unchanged_axes():
        positions = [_positions(place, part, number) for number in (0, 1)]
        values = part.values()
    # An entry that was selected twice has the same elements both times.
    (rows, first_rows), (columns, first_columns) = (
        np.unique(each, return_index=True) for each in positions
    )
    if rows.size < positions[0].size or columns.size < positions[1].size:
        values = values[first_rows][:, first_columns]
    else:
        rows, columns = positions
    if not sp.issparse(values):
        return place.placed(place.shape, values, rows, columns)
    if place.fill is not None:
        raise errors.InvalidInputError(
            f"fill= is for dense values, and the slice of {part.name!r} is sparse: what is not in "
            "it is zero; leave fill= out, or pass the to_numpy() of a slice of all entries"
        )
    elements = values.tocoo()
    indices = rows[elements.row], columns[elements.col]
    return sp.csc_array((elements.data, indices), shape=place.shape)


def _positions(place: Place, part: MatrixSlice, number: int) -> Positions:
    """Return where the rows or the columns of a slice are along the axis of the new matrix."""
    axis = place.axes[number]
    if part.daf is place.daf and (part.rows_axis, part.columns_axis)[number] == axis:
        return (part.row_positions, part.column_positions)[number]
    return place.daf.axis_indices(axis, (part.rows, part.columns)[number])


def matrix_of_rows(place: Place, table: pa.Table) -> Any:
    """Return the values of rows that name an entry of either axis.

    Dense if there is a row for every element, or a value to fill the others with; else sparse.
    """
    rows_axis, columns_axis = place.axes
    keys = rows_axis, f"{rows_axis}_2" if rows_axis == columns_axis else columns_axis
    others = [name for name in table.column_names if name not in keys]
    if len(table.column_names) != 3 or len(others) != 1:
        raise errors.QueryError(
            f"{place.what} needs the columns {keys[0]!r} and {keys[1]!r}, which name the entries, "
            f"and one of values; the query yields {', '.join(table.column_names)}"
        )
    rows, columns = (
        _of_names(place, axis, key, table.column(key))
        for axis, key in zip(place.axes, keys, strict=True)
    )
    numbers = rows * place.shape[1] + columns
    firsts = np.unique(numbers, return_index=True)[1]
    repeated_rows = np.setdiff1d(np.arange(numbers.size), firsts)
    if repeated_rows.size:
        pair = ", ".join(repr(table.column(key)[int(repeated_rows[0])].as_py()) for key in keys)
        raise errors.QueryError(
            f"the query has more than one row for {repeated_rows.size:,} elements of "
            f"{place.what}, the first is ({pair}); GROUP BY {keys[0]}, {keys[1]}"
        )
    values = storable(table.column(others[0]), place.what, f"elements of {place.what}")
    if values.null_count:
        raise errors.QueryError(
            f"the query yields NULL for {values.null_count:,} elements of {place.what}, and a "
            "matrix has no missing strings; use coalesce()"
        )
    elements: Any = values.to_numpy(zero_copy_only=False)
    size = place.shape[0] * place.shape[1]
    if place.fill is None and table.num_rows < size:
        if values.type in STRINGS:
            raise errors.InvalidInputError(
                f"the query yields {table.num_rows:,} of the {size:,} strings of {place.what}, and "
                "none can be left out; pass fill='' for the others"
            )
        return sp.csc_array((elements, (rows, columns)), shape=place.shape)
    matrix = place.empty(place.shape, elements.dtype, is_filled=table.num_rows < size)
    matrix[rows, columns] = elements
    return matrix


def _of_names(place: Place, axis: str, key: str, column: pa.ChunkedArray) -> Positions:
    """Return the positions of the entries that a column names; each name is looked up once."""
    if column.null_count:
        raise errors.QueryError(
            f"the query yields NULL as {key!r} in {column.null_count:,} rows; every element of "
            f"{place.what} needs an entry of axis {axis!r}"
        )
    plain = one_array(column)
    if plain.type not in STRINGS:
        raise errors.QueryError(
            f"the column {key!r} holds {plain.type}, and has to name entries of axis {axis!r}"
        )
    encoded = plain.dictionary_encode()
    places = place.daf.axis_indices(axis, encoded.dictionary.cast(pa.large_string()))
    positions: Positions = places[encoded.indices.to_numpy(zero_copy_only=False)]
    return positions


def own_axes(values: object) -> tuple[str | None, str | None]:
    """Return the axes of a matrix of these values by default; of groups, their only column."""
    if isinstance(values, MatrixSlice):
        return values.rows_axis, values.columns_axis
    if isinstance(values, Profile):
        groups = list(values.content.groups)
        return groups[0] if len(groups) == 1 else None, values.content.axis_names[1]
    return None, None


def group_names(profile: Profile) -> pa.Array:
    """Return a name for each group of a profile: its values, joined.

    Raises
    ------
    InvalidInputError
        A group is NULL; or two groups have one name.
    """
    groups = profile.content.groups
    if not groups:
        return pa.array(["all"])
    strings = []
    for column, values in groups.items():
        if values.null_count:
            raise errors.InvalidInputError(
                f"the profile has a group whose {column!r} is NULL, which is no name of an entry; "
                f'leave it out with rows="... IS NOT NULL", or name it with coalesce()'
            )
        strings.append(one_array(values).cast(pa.string()))
    names = pc.binary_join_element_wise(*strings, "_")
    twice = repeated(names)
    if len(twice):
        raise errors.InvalidInputError(
            f"two groups of the profile would be called {twice[0].as_py()!r}, which are the "
            f"values of {', '.join(groups)}; group by one expression that tells them apart"
        )
    return names


def group_vectors(profile: Profile) -> dict[str, pa.Array]:
    """Return the vectors of an axis of groups: their sizes, and what the names do not say."""
    groups = profile.content.groups
    vectors: dict[str, pa.Array] = {"count": pa.array(profile.content.sizes)}
    for column, values in groups.items():
        plain = one_array(values)
        if len(groups) > 1 or plain.type not in STRINGS:
            what = f"vector {column!r} of the groups"
            vectors[column] = storable(plain, what, f"values of {what}")
    return vectors
