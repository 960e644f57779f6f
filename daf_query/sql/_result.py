"""The rows of a query, in the shapes that people work with, and the steps upon them.

A column is a name, other SQL, or an expression of DataFusion.  What limits the rows of a query is
kept apart from the steps upon it, as it is in subqueries of SQL.
"""

from __future__ import annotations

import html
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

import pyarrow as pa

from daf_query._calls import Advised, positive_number
from daf_query._formats import ROW_FORMATS
from daf_query._provenance import described, record_of, refuse_own_files, with_record
from daf_query._row_files import Format, Rows, format_of, handed_over, joined, save_rows
from daf_query._runs import attended, call_engine
from daf_query.distributed import nullable_types
from daf_query.scan import ScanReport, converted, plain_type, size_bytes
from daf_query.sql._conditions import DirectScan, direct_scan
from daf_query.sql._engine import Allow, Engine
from daf_query.sql._messages import unknown_in_result
from daf_query.sql._names import references_in
from daf_query.sql._planning import (
    ENGINE,
    MOST_ROWS,
    PLANNING,
    computed_table,
    datafusion,
    node_type,
    schema_of,
    table_frame,
    table_text,
)
from daf_query.sql._rules import corrections, list_barriers
from daf_query.syntax import Edit, edited, parsed, placeholders, quoted_name, without_direction
from daf_query.table import with_categories
from daf_storage import DafError, ShowProgress, errors
from daf_storage.base import optional_import, progress_bar
from daf_storage.display import (
    Markup,
    Preview,
    html_element,
    html_page,
    html_table,
    joined_html,
    preview_of,
    shortened,
    shown_values,
)


class Printed:
    """What a notebook shows as it is printed."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


@dataclass(frozen=True)
class QueryPlan(Printed):
    """How a query would be executed; `DafSession.explain` returns it."""

    query: str
    """The query."""
    logical: str
    """The optimised plan: which columns and filters the tables are given, what is joined."""
    physical: str
    """The steps that are executed."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """What is expensive about a column, and how to make it cheap, by the name of the column."""
    direct: str = ""
    """How the query is answered without this plan; empty if the engine executes it."""

    def as_dict(self) -> dict[str, Any]:
        """Return both plans as plain Python, for machines."""
        return {name: value for name, value in asdict(self).items() if name != "query"}

    def __str__(self) -> str:
        notes = "\n".join(f"note: {name}: {note}" for name, note in self.notes.items())
        direct = f"answered without this plan: {self.direct}" if self.direct else ""
        parts = (direct, self.logical, self.physical.rstrip(), notes)
        return "\n\n".join(part for part in parts if part)


@dataclass(frozen=True)
class Explanation(Printed):
    """What running a query once has cost; `DafSession.explain_analyze` returns it."""

    query: str
    """The query."""
    seconds: float
    """How long it took."""
    rows: int
    """Number of rows of the result."""
    scans: tuple[ScanReport, ...]
    """The tables that were read, in the order in which that began."""
    cache_hits: int
    """How often something computed by an earlier query was used."""
    plan: str
    """The engine's own plan."""

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the plan as plain Python, for machines."""
        return {
            "seconds": self.seconds,
            "rows": self.rows,
            "cache_hits": self.cache_hits,
            "scans": [scan.as_dict() for scan in self.scans],
        }

    def __str__(self) -> str:
        head = f"{self.rows:,} rows in {1e3 * self.seconds:.1f} ms; {self.cache_hits} cache hits"
        return "\n".join([head, *(_text(scan) for scan in self.scans)])


def _text(scan: ScanReport) -> str:
    lines = [
        f"table {scan.table}: {scan.length:,} rows",
        f"  ranges   {scan.ranges:,}, of which {scan.pruned:,} left out and {scan.read:,} read",
        f"  rows     {scan.rows_pruned:,} left out, {scan.rows_in:,} read, {scan.rows_out:,} kept",
    ]
    if scan.index_rows is not None:
        of = f" of {'; '.join(scan.indexes)}" if scan.indexes else ""
        lines.append(f"  index    left {scan.index_rows:,} rows{of}")
    if scan.predicate:
        lines.append(f"  filter   {scan.predicate}")
    for name, count in sorted(scan.values.items()):
        lines.append(f"  column   {name}: {count:,} values, {scan.bytes[name]:,} bytes")
        if name in scan.notes:
            lines.append(f"  note     {name}: {scan.notes[name]}")
    return "\n".join(lines)


LOOKED_AT_ROWS: Final = 1000
"""Of how many rows the charts are."""

SHOWN_ROWS: Final = 10
"""How many rows are shown."""

_SHOWN_COLUMNS: Final = 30

PLAN_COLUMNS: Final = ["plan_type", "plan"]
"""The columns of the answer to EXPLAIN."""


def plan_page(plan: pa.Table) -> Markup:
    """Return the page of the answer to EXPLAIN."""
    parts = (f"{each['plan_type']}:\n{each['plan']}" for each in plan.to_pylist())
    return html_page(html_element("pre", "\n".join(parts)))


def rows_page(rows: pa.Table, total: int | None = None, *, title: str = "") -> Markup:
    """Return the page of a result.

    Parameters
    ----------
    rows
        Its first rows: one more than are looked at, if there are as many.
    total
        How many there are, if that is known.
    title
        What they are.
    """
    is_all = rows.num_rows <= LOOKED_AT_ROWS and total in (None, rows.num_rows)
    places = list(range(min(rows.num_columns, _SHOWN_COLUMNS)))
    looked_at = rows.slice(0, LOOKED_AT_ROWS).select(places)
    previews = [preview_of(column, total=len(column)) for column in looked_at.columns]
    charts = [_header(*each) for each in zip(looked_at.schema, previews, strict=True)]
    cells = list(map(shown_values, looked_at.slice(0, SHOWN_ROWS).columns))
    body = [[_cell(value) for value in row] for row in zip(*cells, strict=True)]
    notes = _notes(rows, total, is_all=is_all)
    heading = [html_element("div", html_element("strong", title))] if title else []
    return html_page(*heading, html_table(charts, body), html_element("div", notes, class_="note"))


def _header(field: pa.Field, preview: Preview) -> Markup:
    name = html_element("div", shortened(field.name))
    kind = html_element("div", shortened(str(plain_type(field.type)), 24), class_="note")
    side = "text" if preview.bins is None else "number"
    chart = html_element("span", preview.chart, title=preview.figures)
    return html_element("th", name, kind, chart, class_=side)


def _cell(value: Any) -> Markup:
    if value is None:
        return html_element("td", "NULL", class_="note")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return html_element("td", shortened(value))
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return html_element("td", text, class_="number")


def _notes(rows: pa.Table, total: int | None, *, is_all: bool) -> Markup:
    shown = min(rows.num_rows, SHOWN_ROWS)
    row_count = rows.num_rows if total is None else total
    of = f"{row_count:,}" if is_all or total is not None else f"more than {LOOKED_AT_ROWS:,}"
    which = "" if is_all and shown == row_count else f"the first {shown:,} of "
    parts = [f"{which}{of} row{'s' * (row_count != 1)}"]
    parts += [] if is_all else [f"charts are of the first {LOOKED_AT_ROWS:,}"]
    hidden = rows.num_columns - _SHOWN_COLUMNS
    parts += [f"{hidden:,} more columns"] if hidden > 0 else []
    return joined_html(["; ".join(parts)])


_SELECT: Final = "SELECT "
_T = TypeVar("_T")

Build: TypeAlias = "Callable[[datafusion.DataFrame], datafusion.DataFrame]"
"""Makes a frame of another one."""

_PASSED = ("Projection", "SubqueryAlias", "Union", "Sort", "Filter", "Distinct")
"""Nodes of a plan that an order or a condition passes."""


@attended
def _built(build: Build, frame: datafusion.DataFrame) -> datafusion.DataFrame:
    return build(kept_apart(frame))


def expressions(
    frame: datafusion.DataFrame, columns: Iterable[str | datafusion.Expr]
) -> list[datafusion.Expr]:
    """Return columns as expressions; a name is taken as it is, other strings are SQL."""
    names, found = frame.schema().names, list[datafusion.Expr]()
    for column in columns:
        if not isinstance(column, str):
            found.append(column)
        elif column in names:
            found.append(datafusion.col(quoted_name(column)))
        elif parameters := placeholders(column):
            raise errors.QueryError(
                f"{parameters[0].written} is a parameter, and steps upon a result (filter, select, "
                "sort) take none: write the value, or pass params= to sql(), with it in the SQL"
            )
        else:
            written = _planned(column, names)
            try:
                found.append(frame.parse_sql_expr(written))
            except Exception as error:
                error.add_note(written)  # for a message that shows where it is wrong
                raise
    return found


def _planned(column: str, names: Sequence[str]) -> str:
    """Return SQL over some columns as the engine plans it, with those that are entries as such."""
    statement = parsed(f"{_SELECT}{column}")
    if statement is None:  # the engine says what is wrong
        return column
    edits = [*corrections(statement), *list_barriers(statement, is_part=True)]
    edits += [
        Edit(each.start, each.stop, quoted_name(each.column))
        for each in references_in(statement)
        if each.entry is not None and each.column in names
    ]
    return edited(statement.text, edits).removeprefix(_SELECT)


def sort_key(
    frame: datafusion.DataFrame, key: str | datafusion.Expr | datafusion.expr.SortExpr
) -> datafusion.Expr | datafusion.expr.SortExpr:
    """Return what to sort by; a string as after ORDER BY, and NULLs go where they do there."""
    if not isinstance(key, str):
        return key
    is_name = key in frame.schema().names
    column, is_ascending, nulls_first = (key, True, False) if is_name else without_direction(key)
    (expression,) = expressions(frame, [column])
    return expression.sort(ascending=is_ascending, nulls_first=nulls_first)


def without_columns(frame: datafusion.DataFrame, names: Sequence[str]) -> datafusion.DataFrame:
    """Return all columns but those of some names.

    Raises
    ------
    VectorNotFoundError
        There is no column of one of them.
    """
    columns = frame.schema().names
    for name in names:
        if name not in columns:
            raise errors.VectorNotFoundError(
                f"the result has no column {name!r} to leave out; it has "
                f"{errors.choices(name, columns)}"
            )
    return frame.select(*(quoted_name(name) for name in columns if name not in names))


def kept_apart(frame: datafusion.DataFrame) -> datafusion.DataFrame:
    """Return rows to build upon: nothing that is asked of them passes what limits them."""
    nodes: list[Any] = [frame.logical_plan()]
    for node in nodes:
        nodes += node.inputs() if node_type(node) in _PASSED else ()
    if not any(map(_is_end, nodes)):
        return frame
    return frame.limit(MOST_ROWS).filter(datafusion.functions.random() >= datafusion.lit(0.0))


def _is_end(node: Any) -> bool:
    """Return whether a node of a plan limits rows, or aggregates all rows to one."""
    keys = node.to_variant().group_by_exprs() if node_type(node) == "Aggregate" else [None]
    is_total = all(key is not None and key.variant_name() == "GroupingSet" for key in keys)
    return is_total or node_type(node) == "Limit"


_AHEAD_BYTES: Final = 64 << 20


@attended
def query_result(engine: Engine, query: str, *, allow: Allow) -> QueryResult:
    """Plan a query, to be executed when its rows are asked for."""
    # Where reports are asked for, the engine's scans make them.
    is_direct = allow == "read" and PLANNING.get().reports is None
    direct = direct_scan(engine.tables, query) if is_direct else None
    rows = engine.plan(query, allow=allow) if direct is None else direct
    return QueryResult(engine, query, rows, allow=allow)


class QueryResult(Advised):
    """The rows of a query, computed each time that they are asked for; `DafSession.sql` makes one.

    `filter`, `select`, `sort`, `limit` and the like return another result.  All that takes Arrow
    data takes one (``pl.DataFrame(result)``, ``pa.table(result)``, DuckDB).  Numbers are not copied
    on their way from the mapped file into Arrow.

    Examples
    --------
    >>> import daf_query, daf_storage
    >>> daf = daf_storage.MemoryDaf()
    >>> daf.add_axis("cell", ["A", "B"])
    >>> daf.set_vector("cell", "age", [30, 60])
    >>> result = daf_query.connect(daf).sql("SELECT name, age FROM cell ORDER BY age")
    >>> len(result), result.to_pydict()
    (2, {'name': ['A', 'B'], 'age': [30, 60]})
    >>> result.to_pandas(arrow_backed=True).dtypes["age"]
    int64[pyarrow]
    >>> result.filter("age > 40").select("name", "age / 10 AS decade").to_pylist()
    [{'name': 'B', 'decade': 6}]
    """

    def __init__(
        self,
        engine: Engine,
        query: str,
        rows: datafusion.DataFrame | DirectScan,
        *,
        allow: Allow = "read",
        requested: Mapping[str, Any] | None = None,
        steps: tuple[tuple[str, Build], ...] = (),
    ) -> None:
        self._engine = engine
        self._query = query
        self._allow = allow
        # Rows that are scanned directly have no frame until a plan is needed.
        self._frame = rows if isinstance(rows, datafusion.DataFrame) else None
        self._direct = None if isinstance(rows, datafusion.DataFrame) else rows
        self._requested = {"sql": query} if requested is None else requested
        self._steps = steps

    @property
    def frame(self) -> datafusion.DataFrame:
        """The frame of DataFusion, for what this class does not offer; its errors are its own."""
        ENGINE.check()
        if self._frame is None:
            self._frame = self._engine.plan(self._query, allow=self._allow)
        return self._frame

    @property
    def schema(self) -> pa.Schema:
        """The names and types of the columns."""
        if self._direct is not None:
            return self._direct.schema
        try:
            return schema_of(self.frame)
        except Exception as error:  # noqa: BLE001 - the engine's own
            raise self._translated(error) from None

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return list((self.schema if self._direct is not None else self.frame.schema()).names)

    def __len__(self) -> int:
        """Return the number of rows, by computing them."""
        return self.count()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield a dictionary of Python values per row, as the rows are computed."""
        for batch in self.batches():
            yield from batch.to_pylist()

    def __repr__(self) -> str:
        return self._run(lambda: call_engine(lambda: repr(self._begun(LOOKED_AT_ROWS + 1))))

    def _repr_html_(self) -> str:
        return self._repr_mimebundle_()["text/html"]

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """Return all that a notebook shows: the rows are computed once for both forms.

        An error is shown in their place: one that is raised here a notebook shows for each form.
        """
        try:
            return self._shown()
        except DafError as error:
            sentence = f"{type(error).__name__}: {error}"
            return {"text/plain": sentence, "text/html": html_page(html_element("pre", sentence))}

    def _shown(self) -> dict[str, str]:
        """Return what `_repr_mimebundle_` does; an error of the rows is raised."""

        def compute() -> pa.Table:
            count = LOOKED_AT_ROWS + 1
            begun = self._begun(count)
            return computed_table(begun if self._is_plan() else begun.limit(count))

        rows = with_categories(self._run(compute))
        text = table_text(rows.slice(0, SHOWN_ROWS))
        if rows.num_rows > SHOWN_ROWS:
            is_all = rows.num_rows <= LOOKED_AT_ROWS
            count = f"{rows.num_rows:,}" if is_all else f"more than {LOOKED_AT_ROWS:,}"
            text = f"{text.rstrip()}\nthe first {SHOWN_ROWS} of {count} rows"
        return {"text/plain": text, "text/html": self._page(rows)}

    def _page(self, rows: pa.Table) -> str:
        return plan_page(rows) if self._is_plan() else rows_page(rows)

    def _begun(self, count: int) -> datafusion.DataFrame:
        """Return a frame with the same first rows: those that can be read alone, or all."""
        first = self._scanned(count)
        return self.frame if first is None else table_frame(first.to_table())

    def _scanned(self, count: int = MOST_ROWS) -> DirectScan | None:
        """Return the scan for the first rows, or all, if the text of the query says which."""
        is_query = self._allow == "read" and not self._steps
        return direct_scan(self._engine.tables, self._query, count) if is_query else None

    def _is_plan(self) -> bool:
        """Return whether this is the answer to EXPLAIN, of which the engine takes no part."""
        return self.column_names == PLAN_COLUMNS

    def explain(self) -> QueryPlan:
        """Return the plan; nothing is executed."""

        def plan() -> QueryPlan:
            frame = self.frame
            logical = str(frame.optimized_logical_plan().display_indent())
            physical = str(frame.execution_plan().display_indent())
            direct = self._scanned()
            described = "" if direct is None else direct.description
            return QueryPlan(self._query, logical, physical, direct=described)

        return self._run(plan)

    def show(self, count: int = 20) -> None:
        """Print the first rows."""
        count = min(positive_number(count, "count", least=0), MOST_ROWS)
        self._run(lambda: self._begun(count).show(count))

    def __arrow_c_schema__(self) -> object:
        """Return the schema for Arrow's C interface."""
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the stream of batches for Arrow's C interface.

        An error within the stream reaches its reader as text of another class, so the first
        batches are computed here: of small results, all.
        """
        rows = self.rows()
        ahead: list[pa.RecordBatch] = []
        size = 0
        for batch in rows.batches:
            ahead.append(batch)
            size += batch.nbytes
            if size > _AHEAD_BYTES:
                break
        batches = itertools.chain(ahead, rows.batches)
        reader = pa.RecordBatchReader.from_batches(rows.schema, batches)
        return reader.__arrow_c_stream__(requested_schema)

    def __reduce__(self) -> NoReturn:
        """Refuse: a result is a plan of this process."""
        raise errors.InvalidInputError(
            "the result of a query cannot be pickled; pickle its to_arrow_table(), or the session "
            "and the SQL"
        )

    def filter(self, *predicates: str | datafusion.Expr) -> QueryResult:
        """Return the rows for which all predicates are true: SQL, or expressions of DataFusion.

        SQL of steps upon a result has no parameters: those are in the query of `sql`.

        Examples
        --------
        >>> import daf_query, daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["TATA", "GATA", "CATA"], vectors={"age": [30, 60, 90]})
        >>> db = daf_query.connect(daf)
        >>> db.sql("SELECT name, age FROM cell").filter("age > 40", "age < 80").to_pydict()
        {'name': ['GATA'], 'age': [60]}
        """
        return self._then(
            lambda frame: frame.filter(*expressions(frame, predicates)), "filter", predicates
        )

    def select(self, *columns: str | datafusion.Expr) -> QueryResult:
        """Return some columns: names, other SQL (``"age / 10 AS decade"``), or expressions."""
        return self._then(
            lambda frame: frame.select(*expressions(frame, columns)), "select", columns
        )

    def drop(self, *names: str) -> QueryResult:
        """Return all columns but those of some names."""
        return self._then(lambda frame: without_columns(frame, names), "drop", names)

    def sort(self, *columns: str | datafusion.Expr | datafusion.expr.SortExpr) -> QueryResult:
        """Return the rows in another order: names or SQL (``"age DESC"``), or expressions."""
        return self._then(
            lambda frame: frame.sort(*(sort_key(frame, each) for each in columns)), "sort", columns
        )

    def limit(self, count: int, offset: int = 0) -> QueryResult:
        """Return at most ``count`` rows, after ``offset`` others."""
        count = min(positive_number(count, "count", least=0), MOST_ROWS)
        offset = min(positive_number(offset, "offset", least=0), MOST_ROWS)
        return self._then(lambda frame: frame.limit(count, offset), "limit", (count, offset))

    def head(self, count: int = 5) -> QueryResult:
        """Return the first rows."""
        return self.limit(count)

    def distinct(self) -> QueryResult:
        """Return each different row once."""
        return self._then(lambda frame: frame.distinct(), "distinct", ())

    def _then(self, build: Build, method: str, arguments: Iterable[object]) -> QueryResult:
        """Return a result that is built upon this one."""
        written = f"{method}({', '.join(map(repr, arguments))})"
        try:
            frame = _built(build, self.frame)
        except Exception as error:  # noqa: BLE001 - the engine raises plain Exceptions
            unknown = unknown_in_result(error, self.column_names)
            written = [self._query, *getattr(error, "__notes__", ())][-1]
            raise unknown or self._engine.translated(error, written) from None
        return QueryResult(
            self._engine,
            self._query,
            frame,
            allow=self._allow,
            requested=self._requested,
            steps=(*self._steps, (written, build)),
        )

    def _translated(self, error: Exception) -> DafError:
        """Return an error of the rows; a division has no place in the query if steps may divide."""
        steps = ".".join(["result", *(written.replace(";", ",") for written, _ in self._steps)])
        return self._engine.translated(error, steps if {*steps} & {*"/%"} else self._query)

    @attended
    def _run(self, work: Callable[[], _T]) -> _T:
        """Run something that executes the query, with errors in the words of the data set.

        Where a column turns out to be unreadable that the query does not name (``SELECT *``), it
        is run again without it.
        """
        while True:
            count = self._engine.connections.broken_count()
            try:
                return work()
            except Exception as error:  # noqa: BLE001 - the engine raises plain Exceptions
                is_same = count == self._engine.connections.broken_count()
                if is_same or not self._is_planned_again():
                    raise self._translated(error) from None

    def _is_planned_again(self) -> bool:
        """Plan the query without columns that turned out to be unreadable; say if that worked."""
        if self._allow != "read":
            return False
        try:
            frame = self._engine.plan(self._query)
            for _, build in self._steps:
                frame = _built(build, frame)
        except Exception:  # noqa: BLE001 - it names them; so the first error is what matters
            return False
        self._frame, self._direct = frame, None
        return True

    def collect(self) -> list[pa.RecordBatch]:
        """Return the rows as batches of Arrow."""
        return list(self._run(self._computed).to_batches())

    def count(self) -> int:
        """Return the number of rows."""
        return self._run(
            lambda: int(
                call_engine(self.frame.count)
                if self._direct is None
                else self._direct.to_table().num_rows
            )
        )

    def _computed(self) -> pa.Table:
        if self._direct is None:
            return computed_table(self.frame)
        return self._direct.to_table()

    def provenance(self) -> dict[str, Any]:
        """Return what files of these rows say of where they come from; see `daf_query.provenance`.

        The SQL has the values of its parameters in it.
        """
        requested = dict(self._requested)
        if self._steps:
            requested["then"] = [written for written, _ in self._steps]
        return record_of(self._engine.connections.data_sets(), requested)

    def is_described(self, provenance: bool | None) -> bool:  # noqa: FBT001 - as it was given
        """Return whether what leaves says where it comes from; None: as the session says."""
        return self._engine.connections.provenance if provenance is None else provenance

    def to_arrow_table(self, *, provenance: bool = False) -> pa.Table:
        """Return the rows as an Arrow table; whole columns are views of the mapped file.

        Parameters
        ----------
        provenance
            Whether the metadata of its schema say where the rows come from.
        """
        return self._described(with_categories(self._run(self._computed)), is_wanted=provenance)

    def _described(self, table: pa.Table, *, is_wanted: bool) -> pa.Table:
        return described(table, self.provenance()) if is_wanted else table

    def to_pydict(self) -> dict[str, list[Any]]:
        """Return a list of Python values per column."""
        return dict(self._run(self._computed).to_pydict())

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return a dictionary of Python values per row.

        Examples
        --------
        >>> import daf_query, daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["TATA", "GATA", "CATA"], vectors={"age": [30, 60, 90]})
        >>> db = daf_query.connect(daf)
        >>> db.sql("SELECT name, age FROM cell WHERE age > 60").to_pylist()
        [{'name': 'CATA', 'age': 90}]
        """
        return list(self._run(self._computed).to_pylist())

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows batch by batch as they are computed: together they may exceed memory.

        They come in any order, unless the query has one.
        """
        yield from self.rows().batches

    def rows(self, *, provenance: bool | None = False) -> Rows:
        """Return the schema and the stream of batches, of which the first is computed.

        Parameters
        ----------
        provenance
            Whether the metadata of the schema say where the rows come from; None: as the session
            was connected.
        """

        def begin() -> tuple[pa.Schema, Callable[[], pa.RecordBatch | None], list[pa.RecordBatch]]:
            schema = self.schema
            call: Callable[[Callable[[], Any]], Any] = call_engine
            if self._direct is None:
                found = call_engine(self.frame.execute_stream)
                stream = joined(converted(each.to_pyarrow(), schema) for each in found)
            else:
                stream, call = joined(self._direct.batches()), attended(operator.call)
            following = partial(call, lambda: next(stream, None))
            return schema, following, list(itertools.islice(iter(following, None), 1))

        schema, following, first = self._run(begin)

        def batches() -> Iterator[pa.RecordBatch]:
            yield from first
            try:
                yield from iter(following, None)
            except Exception as error:  # noqa: BLE001 - as above
                raise self._translated(error) from None

        if self.is_described(provenance):
            schema = with_record(schema, self.provenance())
        return Rows(schema, batches())

    def to_pandas(self, *, arrow_backed: bool = False) -> Any:
        """Return the rows as a pandas DataFrame.

        Parameters
        ----------
        arrow_backed
            Whether the columns stay in Arrow (``int64[pyarrow]``), without being copied, and
            all may be missing.  Otherwise they become numpy's, and booleans and whole numbers
            of which some are missing pandas' own nullable types.

        Examples
        --------
        >>> import daf_query, daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["TATA", "GATA", "CATA"], vectors={"age": [30, 60, 90]})
        >>> db = daf_query.connect(daf)
        >>> db.sql("SELECT name, age FROM cell WHERE age > 40 ORDER BY age").to_pandas()
           name  age
        0  GATA   60
        1  CATA   90
        """
        pandas = optional_import("pandas", extra="pandas")
        table = self.to_arrow_table()
        if arrow_backed:
            return table.to_pandas(types_mapper=pandas.ArrowDtype)
        return handed_over(table, "pandas", pandas_frame)

    def to_polars(self) -> Any:
        """Return the rows as a polars DataFrame; numbers are not copied."""
        polars = optional_import("polars", extra="polars")
        table = self.to_arrow_table()
        frame = handed_over(table, "polars", partial(polars.from_arrow, rechunk=False))
        ordered = {
            field.name: polars.Enum(table.column(place).chunk(0).dictionary.to_pylist())
            for place, field in enumerate(table.schema)
            if pa.types.is_dictionary(field.type)
            and (
                field.type.ordered and table.num_rows and pa.types.is_string(field.type.value_type)
            )
        }
        return frame.cast(ordered)

    def to_duckdb(self, connection: Any = None) -> Any:
        """Return the rows as a DuckDB relation, without copying them.

        Parameters
        ----------
        connection
            A DuckDB connection; by default, the one that ``duckdb.sql`` uses.
        """
        duckdb = optional_import("duckdb", extra="duckdb")
        convert = (duckdb if connection is None else connection).from_arrow
        return handed_over(self.to_arrow_table(), "DuckDB", convert)

    def save(
        self,
        path: str | Path,
        *,
        format: Format | None = None,  # noqa: A002 - what it is called everywhere
        progress: ShowProgress = "auto",
        provenance: bool | None = None,
    ) -> int:
        """Write the rows to a file as they are computed, and return how many they were.

        Parameters
        ----------
        path
            What is there is replaced when the new file is complete; if something fails, it stays.
            A symbolic link is followed; a pipe or a device is written into.
        format
            ``parquet``, ``arrow`` (IPC file), ``csv``, ``tsv``, ``json`` or ``ndjson``; by default,
            that of the suffix of the path.  Text is compressed if that ends with ``.gz``.
        progress
            Whether to count on stderr.
        provenance
            Whether a Parquet or Arrow file says where the rows come from (`daf_query.provenance`
            reads it); by default as the session was connected.  Text has no place for it.

        Raises
        ------
        InvalidInputError
            The suffix says no format, or there is none of that name; or a data set that is read
            lies there, or around it.
        SourceNotFoundError
            There is no such folder.
        """
        target = Path(path)
        chosen = format_of(target, format)
        refuse_own_files(self._engine.connections.data_sets(), target)
        total = 0
        rows = self.rows(provenance=provenance if ROW_FORMATS[chosen].is_described else False)
        with progress_bar("save", None, show=progress) as bar:

            def counted() -> Iterator[pa.RecordBatch]:
                nonlocal total
                for batch in rows.batches:
                    yield batch
                    total += batch.num_rows
                    bar.add(sum(map(size_bytes, batch.columns)))

            save_rows(Rows(rows.schema, counted()), target, chosen)
        return total


class TableResult(QueryResult):
    """The rows of an Arrow table, which is in memory, asked like those of a query.

    Parameters
    ----------
    title
        What the rows are, for messages.
    requested
        What was asked, for the provenance.
    """

    def __init__(
        self, engine: Engine, table: pa.Table, title: str, requested: Mapping[str, Any]
    ) -> None:
        super().__init__(engine, title, table_frame(table), requested=requested)
        self._table = table

    def to_arrow_table(self, *, provenance: bool = False) -> pa.Table:
        """Return the rows as an Arrow table, which is not copied."""
        return self._described(self._table, is_wanted=provenance)


def pandas_frame(table: pa.Table) -> Any:
    """Return a table with numpy's types; of columns with missing ones, pandas' nullable types.

    Numpy has no missing booleans and integers: they would become objects and floats, which round
    beyond 2^53.
    """
    pandas = optional_import("pandas", extra="pandas")
    nullable = nullable_types(pandas)
    # The engine joins the dictionaries of batches end to end, and pandas refuses a value twice.
    chunked = pa.concat_tables([table, table.schema.empty_table()])
    frame = chunked.unify_dictionaries().to_pandas()
    for place, name in enumerate(table.column_names):
        column = table.column(place)
        if column.null_count and column.type in nullable:
            frame[name] = column.to_pandas(types_mapper=nullable.get)
    return frame
