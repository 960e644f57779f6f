"""Choose entries of the axes of a matrix: by selectors, as ``rows=`` and ``columns=`` have them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, KeysView, Mapping, Sequence, ValuesView
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.matrix import (
    AlignedAxis,
    ConcatenatedAxis,
    EntryAxis,
    Join,
    Positions,
    Selection,
    aligned_axis,
    concatenated_of,
    each_once,
)
from daf_query.scan import INDEX, NAME
from daf_query.sql import (
    AxisSchema,
    By,
    Engine,
    QueryResult,
    computed_table,
    direct_rows,
    is_ordered,
    missing_base,
    strip_prefixes,
)
from daf_query.syntax import (
    Edit,
    WrappedSql,
    clauses_of,
    is_select,
    plain_name,
    python_edits,
    quoted_name,
    quoted_string,
)
from daf_query.table import DATASET, VALUE, UserTable, arrow_table, is_user_table, spelled_entry
from daf_storage import DafReader, errors
from daf_storage._lazy import pc
from daf_storage.anndata import recorded_types
from daf_storage.base import check_choice, one_array

Selector: TypeAlias = (
    str
    | slice
    | range
    | Sequence[str]
    | Sequence[int]
    | Sequence[bool]
    | npt.NDArray[Any]
    | Any
    | None
)
"""All; SQL; positions, names or a mask, in any container; a table or a query result."""

Written: TypeAlias = str | dict[str, Any] | None
"""SQL, a query and what was built upon it, or how many were listed; None: all."""

_INDEX: Final = quoted_name(INDEX)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The entries that a selector chooses of an axis."""

    selection: Selection
    written: Written
    """The selector as it was written; of a list, only how many it chose."""
    empty: str | None
    """A sentence on the predicate that selects nothing; None if it selects something."""


@dataclass(frozen=True, slots=True)
class SliceRequest:
    """What a slice is asked for."""

    engine: Engine
    tables: AxisSchema
    """Those of the data set, or of the collection."""
    axes: tuple[str, str]
    """That of the rows, and that of the columns."""
    name: str
    """The name of the matrix."""
    rows: Selector = None
    columns: Selector = None
    join: Join = "inner"
    """In a collection, which entries the aligned axis has."""
    fill_value: Any = None
    """What stands where one of them lacks an entry; None for 0 if sparse, else NaN."""
    along: str | None = None
    """The axis that is concatenated; None to find out."""
    by: By = ()
    """For a profile, what the rows are grouped by."""
    max_bytes: int | None = None
    """How large the result and the download may be; None for any size."""


@dataclass(frozen=True, slots=True)
class MatrixAxes:
    """The two axes of a matrix, of a data set or of several, and what is selected of them."""

    having: Mapping[str, DafReader]
    """The data sets that have the matrix, by name."""
    axes: tuple[EntryAxis, EntryAxis]
    """That of the rows, and that of the columns."""
    chosen: tuple[Chosen, Chosen]
    """The rows and the columns that are selected."""

    @property
    def selections(self) -> tuple[Selection, Selection]:
        """The selected rows and columns."""
        return self.chosen[0].selection, self.chosen[1].selection


def matrix_axes(request: SliceRequest) -> MatrixAxes:
    """Return both axes of a matrix, and which entries are selected.

    Raises
    ------
    NotFoundError, QueryError
        There is no such matrix, axis or entry; or a selector is wrong.
    InvalidInputError
        The join is none, or ``along`` none of the axes; or an inner join leaves nothing.
    """
    engine, tables, axes = request.engine, request.tables, request.axes
    try:
        having = tables.matrix_readers(axes, request.name)
    except errors.AxisNotFoundError as error:
        raise errors.with_message(error, f"{error}{missing_base(tables.only.daf)}") from None
    check_choice(request.join, Join, "join")
    both: list[EntryAxis] = [tables.concatenated(axis) for axis in axes]
    if tables.is_collection:
        first = concatenated_of(having.values(), axes, request.along, location=tables.location)
        second = axes[1] if first == axes[0] else axes[0]
        aligned = aligned_axis(having, second, request.join, location=tables.location)
        aligned.refuse_nothing_in_common()
        both[axes.index(second)] = aligned
    rows, columns = (
        Chooser(engine, tables, axis, keyword, other).chosen(selector)
        for axis, selector, keyword, other in zip(
            both, (request.rows, request.columns), ("rows", "columns"), axes[::-1], strict=True
        )
    )
    return MatrixAxes(having, (both[0], both[1]), (rows, columns))


@dataclass(frozen=True, slots=True)
class Chooser:
    """Chooses entries of an axis by selectors.

    SQL chooses a name of an aligned axis if it chooses it in any data set; names that the join
    leaves out are not chosen.  Whoever lists a name that is left out gets an error.
    """

    engine: Engine
    tables: AxisSchema
    axis: EntryAxis
    keyword: str
    """What the selector is passed as, for messages."""
    other: str
    """The other axis, for messages."""

    def chosen(self, selector: Selector) -> Chosen:
        """Return the entries that a selector chooses.

        Raises
        ------
        NotFoundError, QueryError, InvalidInputError
            It chooses something else.
        """
        axis, keyword = self.axis, self.keyword
        if selector is None:
            return Chosen(Selection.all(axis.length), None, None)
        found = self._rows_of(selector)
        if found is None:
            try:
                positions = positions_of(axis, selector, keyword)
            except errors.EntryNotFoundError as error:
                hint = _symbol_hint(keyword, *self._spelled(error.entry))
                hint = hint or self._elsewhere(error.entry)
                raise errors.with_message(error, f"{error}{hint}") from None
        else:
            table, has_order = found
            positions = self._named(table, is_query=has_order is not None)
            if has_order is not None:
                first = np.sort(np.unique(positions, return_index=True)[1])  # of each
                positions = positions[first] if has_order else each_once(positions)
        selection = Selection.of(positions, axis.length)
        empty = None
        is_empty = not selection.size and axis.length > 0
        if isinstance(selector, str) and is_empty and not is_select(selector):
            call = f"db.diagnose({axis.axis!r}, {selector.strip()!r})"
            empty = f"{keyword}= selects no {axis.axis}; {call} says why"
        return Chosen(selection, _written(selector, selection.size, axis.length), empty)

    def _rows_of(self, selector: Selector) -> tuple[pa.Table, bool | None] | None:
        """Return the rows that a selector yields, and whether a query gave them an order.

        None for what is no table; and for the order of a table that is no answer of a query.
        """
        if isinstance(selector, QueryResult):
            return selector.to_arrow_table(), is_ordered(selector.frame)
        if isinstance(selector, str):
            return self._select(selector) if is_select(selector) else self._predicate(selector)
        return (arrow_table(selector), None) if is_table(selector) else None

    def _select(self, query: str) -> tuple[pa.Table, bool]:
        """Return the rows of a whole query, and whether it gives them an order."""
        more = (DATASET,) if self.tables.is_collection else ()
        frame = self.engine.plan(query, once=(INDEX, NAME, *more))
        try:
            return computed_table(frame), is_ordered(frame)
        except Exception as error:  # noqa: BLE001 - the engine raises plain Exceptions
            raise errors.QueryError(f"{self.keyword}=: {strip_prefixes(str(error))}") from None

    def _predicate(self, predicate: str) -> tuple[pa.Table, bool]:
        """Return the rows that a predicate chooses, by their key, and whether it orders them.

        Raises
        ------
        QueryError
            The predicate is wrong.
        VectorNotFoundError
            It names an unknown column.
        """
        axis, tables = self.axis.axis, self.tables
        if not predicate.strip():
            raise errors.QueryError(
                f"{self.keyword}= is an empty predicate; leave it out to take all"
            )
        is_one = not tables.is_collection
        key = (_INDEX, _INDEX) if is_one else _key(tables.concatenated(axis).names)
        direct = direct_rows(self.engine.tables, tables.name, axis, predicate) if is_one else None
        try:
            if direct is not None:
                return direct.to_table(), False
            wrapped, has_order = _predicate_query(tables.name, axis, predicate, key)
            return self.engine.rows_of(wrapped, "predicate"), has_order
        except errors.DafError as explained:
            message = f"{self.keyword}= on axis {axis!r}: {explained}"
            if isinstance(explained, errors.VectorNotFoundError):
                message += self._hint(explained, predicate)
            raise errors.with_message(explained, message) from None

    def _hint(self, error: errors.VectorNotFoundError, predicate: str) -> str:
        """Return where an unknown column is instead, or how to ask for an entry by its name."""
        axis, keyword = self.axis.axis, self.keyword
        if self.other != axis and self.other in error.other_axes:
            return f": pass this predicate as {'columns' if keyword == 'rows' else 'rows'}="
        bare = predicate.strip().strip("'\"")
        vector, entry = self._spelled(bare)
        if vector == NAME and entry == bare:
            return f"; to take an entry by its name pass a list: {keyword}=[{bare!r}]"
        return _symbol_hint(keyword, vector, entry) or self._elsewhere(bare)

    def _spelled(self, name: str) -> tuple[str, str]:
        """Return in which vector of the axis there is a name, and how; empty if in none."""
        having = self.tables.readers(self.axis.axis).values()
        found = (spelled_entry(daf, self.axis.axis, [name]) for daf in having)
        return next(filter(None, found), ("", ""))

    def _elsewhere(self, name: str) -> str:
        """Return which axis that has a matrix over the other one has a name; empty if none has."""
        for daf in self.tables.readers(self.other).values():
            for axis in sorted(daf.axes_set()):
                has_matrix = axis != self.axis.axis and daf.matrices_set(self.other, axis)
                if has_matrix and spelled_entry(daf, axis, [name]) == (NAME, name):
                    return f"; axis {axis!r} has it: pass {self.keyword}_axis={axis!r}"
        return ""

    def _named(self, table: pa.Table, *, is_query: bool) -> Positions:
        """Return the positions of the entries that the rows of a table name."""
        axis, keyword = self.axis, self.keyword
        if not isinstance(axis, AlignedAxis):
            return positions_in(axis, table, keyword)
        if is_query and {DATASET, INDEX} <= set(table.column_names):
            union = self.tables.concatenated(axis.axis)
            return axis.among(union, positions_in(union, table, keyword))
        names = _column(table, NAME, axis, keyword)
        return axis.axis_indices(names, may_lack=is_query)


def _symbol_hint(keyword: str, vector: str, symbol: str) -> str:
    """Return how to choose by a symbol; empty if it is none."""
    is_symbol = vector not in ("", NAME)
    condition = f"{plain_name(vector)} IN ({quoted_string(symbol)})"
    return f'; symbols are in {vector}: pass {keyword}="{condition}"' if is_symbol else ""


def _written(selector: Selector, count: int, length: int) -> Written:
    if selector is None or isinstance(selector, str):
        return selector
    if isinstance(selector, QueryResult):
        record = selector.provenance()
        return {key: record[key] for key in ("sql", "then") if key in record}
    return f"{count:,} of {length:,}, listed"


def _key(names: Sequence[str]) -> tuple[str, str]:
    """Return the key of the rows of a union table, and what has the order of its data sets."""
    dataset = quoted_name(DATASET)
    columns = f"{dataset}, {_INDEX}"
    if list(names) == sorted(names):
        return columns, columns
    cases = " ".join(f"WHEN {quoted_string(each)} THEN {n}" for n, each in enumerate(names))
    return columns, f"CASE {dataset} {cases} END, {_INDEX}"


def positions_of(axis: EntryAxis, selector: Any, keyword: str) -> Positions:
    """Return the positions that a selector other than SQL and tables chooses.

    Lists and columns keep their order and their duplicates; a set has the order of the axis.  A
    missing boolean chooses nothing.
    """
    if isinstance(selector, slice):
        try:
            return np.arange(axis.length)[selector]
        except (TypeError, ValueError):
            raise errors.InvalidInputError(
                f"{keyword}={selector}: a slice has positions, and a step that is not 0; pass a "
                "list of names, or SQL"
            ) from None
    is_set = isinstance(selector, set | frozenset)
    if is_set or isinstance(selector, Iterator | KeysView | ValuesView):
        selector = list(selector)
    if isinstance(axis, ConcatenatedAxis) and _are_pairs(selector):
        datasets, names = zip(*selector, strict=True)
        positions = axis.named(pa.array(datasets, pa.string()), pa.array(names, pa.string()))
    else:
        column = strings(_as_arrow(selector, keyword))
        positions = _of_arrow(axis, column, keyword, getattr(selector, "index", None))
    return each_once(positions) if is_set else positions


def is_table(selector: object) -> bool:
    """Return whether a selector has columns: a data frame, a result, an Arrow table."""
    is_column = hasattr(selector, "dtype") and not hasattr(selector, "columns")
    is_column |= isinstance(selector, pa.ChunkedArray | pa.Array)
    return is_user_table(selector) and not is_column


def _are_pairs(selector: Any) -> bool:
    """Return whether a selector lists a data set and a name each, as a MultiIndex of pandas may.

    >>> [_are_pairs(each) for each in ([("a", "x")], (("a", "x"),), [("a", "x"), ("b", 1)])]
    [True, True, False]
    >>> [_are_pairs(each) for each in ([], ["ab"], [("a", "x", "y")], ("a", "x"), "ab", 5)]
    [False, False, False, False, False, False]
    """
    is_list = isinstance(selector, list | tuple) and isinstance(next(iter(selector), None), tuple)
    if not is_list and getattr(selector, "nlevels", 1) != 2:
        return False
    return len(selector) > 0 and all(
        isinstance(item, tuple) and len(item) == 2 and all(isinstance(each, str) for each in item)
        for item in selector
    )


def _as_arrow(selector: Any, keyword: str) -> Any:
    """Return a list or a column of numpy, polars, pandas or Arrow as one of Arrow."""
    if isinstance(selector, pa.ChunkedArray | pa.Array):
        return selector
    if hasattr(selector, "dtype") and hasattr(selector, "to_arrow"):
        return selector.to_arrow()
    try:
        is_known = isinstance(selector, list | tuple) or hasattr(selector, "__arrow_array__")
        values = selector if is_known else np.asanyarray(selector)
        column = pa.array(getattr(selector, "array", values), from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        if np.ndim(selector) == 1:
            raise errors.InvalidInputError(
                f"{keyword}= mixes types, or has integers beyond 64 bits; pass names (strings), "
                "positions (integers) or a mask (booleans)"
            ) from error
        column = None
    if column is None or pa.types.is_nested(column.type):
        raise errors.InvalidInputError(
            f"{keyword}= is neither SQL nor a list of names, positions or booleans: {selector!r}"
        )
    return column


def _of_arrow(axis: EntryAxis, column: Any, keyword: str, labels: Any) -> Positions:
    kind = column.type
    if pa.types.is_boolean(kind) and len(column):
        mask = pc.fill_null(column, fill_value=False).to_numpy(zero_copy_only=False)
        what = f"the mask passed as {keyword}="
        if len(mask) != axis.length:
            raise errors.wrong_length(axis.location, what, len(mask), axis.axis, axis.length)
        if not (labels is None or callable(labels) or type(labels).__name__ == "RangeIndex"):
            axis.check_labels(labels, what)
        return np.flatnonzero(mask)
    if column.null_count:
        raise errors.InvalidInputError(
            f"{keyword}= has {column.null_count:,} missing values; drop them, for example with "
            "dropna() or drop_nulls()"
        )
    if not len(column):
        return np.empty(0, np.int64)
    if pa.types.is_integer(kind):
        return integers(column, axis, keyword)
    if kind in (pa.string(), pa.large_string()):
        return axis.axis_indices(column)
    raise errors.InvalidInputError(
        f"{keyword}= holds {kind} values; pass names (strings), positions (integers) or a "
        "mask (booleans)"
    )


def strings(column: Any) -> Any:
    """Return a column with plain strings in place of categoricals and views."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.string()) if column.type == pa.string_view() else column


def integers(column: Any, axis: EntryAxis, keyword: str) -> Positions:
    """Return a column of positions, after checking that they are of an axis."""
    if not pa.types.is_integer(column.type):
        raise errors.QueryError(
            f"{keyword}=: the column {INDEX!r} holds {column.type}, not integers"
        )
    values = column.to_numpy(zero_copy_only=False)
    outside = values[(values < 0) | (values >= axis.length)]
    if outside.size:
        raise errors.EntryNotFoundError(
            f"{axis.location}: {keyword}= asks for position {outside[0]:,} of axis {axis.axis!r}; "
            f"positions count from 0 to {axis.length - 1:,}"
        )
    positions: Positions = values.astype(np.int64)
    return positions


def positions_in(axis: ConcatenatedAxis, table: pa.Table, keyword: str) -> Positions:
    """Return the positions along a concatenated axis that the rows of a table name.

    Raises
    ------
    QueryError
        Columns that it needs are missing, or it has names and positions of different entries.
    """
    has, of_datasets = table.column_names, None
    if DATASET in has and not axis.is_alone:
        of_datasets = _column(table, DATASET, axis, keyword)
    if INDEX in has and (axis.is_alone or of_datasets is not None):
        index = integers(_column(table, INDEX, axis, keyword), axis, keyword)
        positions = index if of_datasets is None else axis.joined(of_datasets, index)
        if NAME in has:
            _check_names(axis, positions, table.column(NAME), keyword)
        return positions
    names = _column(table, NAME, axis, keyword)
    return axis.axis_indices(names) if of_datasets is None else axis.named(of_datasets, names)


def _check_names(
    axis: ConcatenatedAxis, positions: Positions, names: pa.ChunkedArray, keyword: str
) -> None:
    """Raise unless the entries at some positions have these names."""
    entries = axis.entries_at(positions)
    is_same = pc.fill_null(pc.equal(strings(names).cast(pa.string()), entries), fill_value=False)
    other = pc.index(is_same, False).as_py()
    if other >= 0:
        raise errors.QueryError(
            f"{keyword}= yields {NAME!r} {names[other].as_py()!r} and {INDEX!r} "
            f"{positions[other]:,}, which is {entries[other].as_py()!r} on axis {axis.axis!r}; "
            f"select {NAME!r} or {INDEX!r} of that axis alone"
        )


def _column(table: pa.Table, name: str, axis: EntryAxis, keyword: str) -> Any:
    """Return a column of a table that names entries, as one array; strings as plain ones."""
    has = table.column_names
    if name not in has:
        raise errors.QueryError(
            f"{keyword}= yields {', '.join(has) or 'nothing'}{_needs(axis, has)}"
        )
    column = table.column(name)
    if column.null_count:
        raise errors.QueryError(
            f"{keyword}= yields NULL as {name!r} {column.null_count} times; add: WHERE {name} IS "
            "NOT NULL"
        )
    if name != INDEX:
        column = strings(column).cast(pa.string())
    return one_array(column)


def _needs(axis: EntryAxis, has: Sequence[str]) -> str:
    """Return what the rows that name entries have to have."""
    if isinstance(axis, ConcatenatedAxis) and axis.is_alone:
        return f"; it has to yield the column {NAME!r} or {INDEX!r} of axis {axis.axis!r}"
    if INDEX in has:
        return (
            f": {INDEX!r} counts within each of {axis.location}; select {DATASET!r} as well, or "
            f"{NAME!r}"
        )
    return f"; of several data sets it has to yield {DATASET!r} and {INDEX!r}, or {NAME!r}"


def _predicate_query(
    schema: str, axis: str, predicate: str, key: tuple[str, str]
) -> tuple[WrappedSql, bool]:
    """Return the query for the rows that a predicate chooses, and whether it has an order.

    The predicate may end in ORDER BY, LIMIT and OFFSET, or have only these.  Entries that are equal
    in the order, and those of a LIMIT without one, come in the order of the axis.

    Parameters
    ----------
    key
        What says which rows are chosen, and what the table is ordered by.

    Examples
    --------
    >>> key = ('"index"', '"index"')
    >>> predicate = "age > 60 ORDER BY age LIMIT 3"
    >>> print(_predicate_query("pbmc", "cell", predicate, key)[0].query)
    SELECT "index" FROM "pbmc"."cell" WHERE (
    age > 60
    ) ORDER BY age
    , "index" LIMIT 3
    """
    table = f"{quoted_name(schema)}.{quoted_name(axis)}"
    # Not an injection: the query is read-only, one statement, and the predicate is SQL by design.
    start = f"SELECT {key[0]} FROM {table} "  # noqa: S608
    clauses = clauses_of(predicate)
    has_order = bool(clauses) and clauses[0].is_word("ORDER")
    starts = [*(clause.start for clause in clauses), len(predicate)]
    has_filter = bool(predicate[: starts[0]].strip())
    parts = [
        Edit(0, 0, f"{start}WHERE (\n" if has_filter else f"{start}\n"),
        *python_edits(predicate),
    ]
    if has_filter:
        parts.append(Edit(starts[0], starts[0], "\n) "))
    if clauses:  # what comes before LIMIT and OFFSET
        end = starts[has_order]
        parts.append(Edit(end, end, f"\n, {key[1]} " if has_order else f"ORDER BY {key[1]} "))
    return WrappedSql(predicate, tuple(parts)), bool(clauses)


_COLOUR: Final = "color"


@dataclass(frozen=True)
class AxisRows:
    """All or some rows of the table of an axis; of a collection, in the order of its data sets."""

    engine: Engine
    tables: AxisSchema
    axis: str
    some: Positions | None = None
    """The positions of the rows, ascending, each once; None for all."""

    @classmethod
    def of(cls, engine: Engine, schema: str | None, axis: str) -> AxisRows:
        """Return all rows of an axis.

        Raises
        ------
        NotFoundError
            There is no such schema, or no such axis.
        """
        return cls(engine, engine.connections.schema(schema).having(axis), axis)

    @cached_property
    def whole(self) -> ConcatenatedAxis:
        """The axis of all data sets that have it."""
        return self.tables.concatenated(self.axis)

    @property
    def readers(self) -> list[DafReader]:
        """The data sets that have the axis, in their order."""
        return list(self.whole.members.values())

    @property
    def table(self) -> str:
        """How SQL writes the table."""
        return f"{quoted_name(self.tables.name)}.{quoted_name(self.axis)}"

    @cached_property
    def vectors(self) -> frozenset[str]:
        """The names of its columns."""
        keys = {NAME, INDEX, *([DATASET] if self.tables.is_collection else [])}
        return frozenset(keys.union(*(daf.vectors_set(self.axis) for daf in self.readers)))

    def names(self) -> pa.Array:
        """Return the name of each row of the whole axis, as large strings."""
        names = (daf.get_pa_vector(self.axis, NAME) for daf in self.readers)
        return pa.concat_arrays([each.cast(pa.large_string()) for each in names])

    def categories(self, vector: str) -> pa.Array | None:
        """Return the categories of a vector in their order, if an import noted them.

        Those of a collection are those of all data sets that noted some.
        """
        listed: dict[str, None] = {}
        for daf in self.readers if vector in self.vectors else ():
            recorded = recorded_types(daf, self.axis, (vector,)).get(vector)
            if recorded is not None and recorded.categories is not None:
                listed.update(dict.fromkeys(recorded.categories.to_pylist()))
        return pa.array(list(listed), pa.string()) if listed else None

    def colours(self, vector: str) -> dict[str, str] | None:
        """Return the colours of categories: those of the axis with the name of the vector.

        In a collection, the first data set with a colour for a category counts.
        """
        noted: dict[str, str] = {}
        for daf in self.tables.readers().values() if vector in self.vectors else ():
            if daf.has_axis(vector) and daf.has_vector(vector, _COLOUR):
                names = daf.get_pa_vector(vector, NAME).to_pylist()
                colours = daf.get_np_vector(vector, _COLOUR).tolist()
                if all(isinstance(colour, str) and colour for colour in colours):
                    noted = {**dict(zip(names, colours, strict=True)), **noted}
        return noted or None

    def chosen(self, selector: Selector, keyword: str = "rows") -> Positions:
        """Return the positions that a selector chooses; they count through several data sets.

        Raises
        ------
        QueryError, EntryNotFoundError, InvalidInputError
            The selector is wrong.
        """
        chooser = Chooser(self.engine, self.tables, self.whole, keyword, self.axis)
        return chooser.chosen(selector).selection.positions

    def values(self, text: str, *, edits: tuple[Edit, ...] = ()) -> pa.Array:
        """Return the value of a vector or of an expression for each row, in their order.

        Window functions see these rows and no others.

        Parameters
        ----------
        edits
            What is written differently in the expression.

        Raises
        ------
        QueryError
            It is wrong, or has not one value for each row; a syntax error says where in it.
        VectorNotFoundError
            It names an unknown column.
        """
        keys = [DATASET, INDEX] if self.tables.is_collection else [INDEX]
        if text in self.vectors:
            text, edits = quoted_name(text), ()
        with self._join() as join:
            # Not an injection: it is read-only, one statement, and the expression SQL by design.
            start, end = (
                f"SELECT {', '.join(map(quoted_name, keys))}, (\n",
                f"\n) AS {VALUE} FROM {self.table} {join}",
            )
            found = self.engine.rows_of(WrappedSql.between(start, text, end, edits), "expression")
        positions = positions_in(self.whole, found.select(keys), "rows")
        wanted = np.arange(self.whole.length) if self.some is None else self.some
        order = np.argsort(positions, kind="stable")
        if not np.array_equal(positions[order], wanted):
            raise errors.QueryError(
                f"the expression has {positions.size:,} values, and axis {self.axis!r} has "
                f"{wanted.size:,} entries; it needs one for each"
            )
        return one_array(found.column(VALUE).unify_dictionaries().take(pa.array(order)))

    @contextmanager
    def _join(self) -> Iterator[str]:
        """Connect the keys of some rows as a table, and return what joins the axis with it."""
        if self.some is None or self.some.size == self.whole.length:
            yield ""
            return
        name = f"chosen_{secrets.token_hex(8)}"
        keys = self.whole.keys_of(self.some)
        rows = pa.table({f"chosen_{key}": column for key, column in keys.items()})
        equal = (f"{self.table}.{quoted_name(key)} = {name}.chosen_{key}" for key in keys)
        connections = self.engine.connections
        connections.connect(name, UserTable(rows, "the chosen entries"))
        try:
            yield f"LEFT SEMI JOIN {name} ON {' AND '.join(equal)}"
        finally:
            connections.disconnect(name)
