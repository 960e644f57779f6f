"""The rows of a query, in the shapes that people work with."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

import datafusion
import pyarrow as pa
from datafusion.expr import SortExpr

from daf_query._provenance import described, record_of, refuse_own_files
from daf_query._row_files import Rows
from daf_query._runs import attended, call_engine
from daf_query.sql._corrections import kept_apart
from daf_query.sql._direct_scan import DirectRows
from daf_query.sql._engine import Allow, Engine
from daf_query.sql._engine_context import ENGINE
from daf_query.sql._explain import QueryPlan
from daf_query.sql._messages import unknown_result_column
from daf_query.sql._planned import Planned
from daf_query.sql._result_conversions import ResultConversions
from daf_query.sql._result_page import LOOKED_AT_ROWS, SHOWN_ROWS, error_page, rows_page
from daf_query.sql._result_steps import expressions, filtered, sort_keys, written_call
from daf_query.sql._simple_condition import UncertainError
from daf_query.sql._user_tables import table_frame, table_text
from daf_query.syntax import quoted_name
from daf_query.table import with_categories
from daf_storage import DafError, errors

_T = TypeVar("_T")

Step: TypeAlias = Callable[[datafusion.DataFrame], datafusion.DataFrame]
"""What is built upon the rows of a query."""

_AHEAD_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Statement:
    """A query, which can be planned again."""

    engine: Engine
    query: str
    allow: Allow
    asked: Mapping[str, Any]
    """What was asked, for the provenance."""

    def translated(self, error: Exception) -> DafError:
        """Return an error of the query, or of building upon it, in the words of the data set."""
        return self.engine.translated(error, self.query)


@attended
def query_result(engine: Engine, query: str, *, allow: Allow) -> QueryResult:
    """Plan a query, to be executed when its rows are asked for."""
    broken_count = engine.connections.broken_count()
    direct = engine.direct.of_query(query) if allow == "read" else None
    planned = engine.planned(query, allow=allow) if direct is None else None
    statement = Statement(engine, query, allow, {"sql": query})
    return QueryResult(statement, planned, broken_count=broken_count, direct=direct)


class QueryResult(ResultConversions):
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
        statement: Statement,
        planned: Planned | None,
        *,
        broken_count: int,
        direct: DirectRows | None = None,
        steps: tuple[Step, ...] = (),
        written: tuple[str, ...] = (),
    ) -> None:
        self._statement = statement
        self._planned = planned  # None where rows are scanned directly, until a plan is needed
        self._direct = direct
        self._broken_count = broken_count
        self._steps = steps
        self._written = written

    @property
    def frame(self) -> datafusion.DataFrame:
        """The frame of DataFusion, for what this class does not offer; its errors are its own."""
        return self._plan().frame

    @property
    def schema(self) -> pa.Schema:
        """The names and types of the columns."""
        return self._executed().schema() if self._direct is None else self._direct.schema

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)

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
            return {"text/plain": sentence, "text/html": error_page(sentence)}

    def _shown(self) -> dict[str, str]:
        """Return what `_repr_mimebundle_` does; an error of the rows is raised."""
        rows = self._first_rows(LOOKED_AT_ROWS + 1)
        text = table_text(rows.slice(0, SHOWN_ROWS))
        return {"text/plain": text, "text/html": self._page(rows)}

    def _page(self, rows: pa.Table) -> str:
        return rows_page(rows)

    def _first_rows(self, count: int) -> pa.Table:
        """Return the first rows, computed now."""

        def compute() -> pa.Table:
            return self._begun(count).limit(count).to_arrow_table()

        return with_categories(self._run(lambda: call_engine(compute)))

    def _begun(self, count: int) -> datafusion.DataFrame:
        """Return a frame with the same first rows: those that can be read alone, or all."""
        if self._is_query():
            statement = self._statement
            first = statement.engine.direct.first_of_query(statement.query, count)
            if first is not None:
                return table_frame(first)
        return self._executed()

    def _is_query(self) -> bool:
        """Return whether the text of the query says which rows these are; it changes nothing."""
        return self._statement.allow == "read" and not self._steps

    def explain(self) -> QueryPlan:
        """Return the plan; nothing is executed."""

        def plan() -> QueryPlan:
            frame = self._executed()
            logical = str(frame.optimized_logical_plan().display_indent())
            physical = str(frame.execution_plan().display_indent())
            statement = self._statement
            is_query = self._is_query()
            direct = statement.engine.direct.description(statement.query) if is_query else ""
            return QueryPlan(statement.query, logical, physical, direct=direct)

        return self._run(plan)

    def show(self, count: int = 20) -> None:
        """Print the first rows."""
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
            lambda frame: filtered(frame, predicates),
            written_call("filter", predicates),
        )

    def select(self, *columns: str | datafusion.Expr) -> QueryResult:
        """Return some columns: names, other SQL (``"age / 10 AS decade"``), or expressions."""
        return self._then(
            lambda frame: frame.select(*expressions(frame, columns)),
            written_call("select", columns),
        )

    def drop(self, *names: str) -> QueryResult:
        """Return all columns but those of some names."""

        def build(frame: datafusion.DataFrame) -> datafusion.DataFrame:
            known = frame.schema().names
            for name in names:
                if name not in known:
                    raise errors.VectorNotFoundError(
                        f"the result has no column {name!r} to leave out; it has "
                        f"{errors.known_names(known, none='none')}{errors.nearest(name, known)}"
                    )
            kept = [quoted_name(name) for name in known if name not in names]
            return frame.select(*kept)

        return self._then(build, written_call("drop", names))

    def sort(self, *columns: str | datafusion.Expr | SortExpr) -> QueryResult:
        """Return the rows in another order: names or SQL (``"age DESC"``), or expressions."""
        return self._then(
            lambda frame: frame.sort(*sort_keys(frame, columns)), written_call("sort", columns)
        )

    def limit(self, count: int, offset: int = 0) -> QueryResult:
        """Return at most ``count`` rows, after ``offset`` others."""
        return self._then(
            lambda frame: frame.limit(count, offset), written_call("limit", (count, offset))
        )

    def head(self, count: int = 5) -> QueryResult:
        """Return the first rows."""
        return self.limit(count)

    def distinct(self) -> QueryResult:
        """Return each different row once."""
        return self._then(lambda frame: frame.distinct(), written_call("distinct", ()))

    def _then(self, step: Step, written: str) -> QueryResult:
        """Return a result that is built upon this one."""

        def kept(frame: datafusion.DataFrame) -> datafusion.DataFrame:
            return step(kept_apart(frame))

        try:
            frame = attended(kept)(self.frame)
        except Exception as error:  # noqa: BLE001 - the engine raises plain Exceptions
            unknown = unknown_result_column(error, self.column_names)
            raise unknown or self._statement.translated(error) from None
        steps = (*self._steps, kept)
        count = self._broken_count
        return QueryResult(
            self._statement,
            Planned(frame),
            broken_count=count,
            steps=steps,
            written=(*self._written, written),
        )

    @attended
    def _run(self, work: Callable[[], _T]) -> _T:
        """Run something that executes the query, with errors in the words of the data set.

        Where a column turns out to be unreadable that the query does not name (``SELECT *``), it
        is run again without it.
        """
        while True:
            try:
                return work()
            except UncertainError:
                self._ask_engine()
            except Exception as error:  # noqa: BLE001 - the engine raises plain Exceptions
                if not self._is_planned_again():
                    raise self._statement.translated(error) from None

    def _ask_engine(self) -> None:
        """Leave the query to the engine, now and later."""
        if self._direct is not None:
            self._statement.engine.direct.refuse(self._statement.query, self._direct)
            self._direct = None

    def _is_direct(self) -> bool:
        """Return whether the rows are computed without the engine; looks at columns of keys."""
        if self._direct is None:
            return False
        try:
            self._direct.check()
        except UncertainError:
            self._ask_engine()
        except DafError:  # it is raised again when the rows are asked for
            pass
        return self._direct is not None

    def _is_planned_again(self) -> bool:
        """Plan the query without columns that turned out to be unreadable; say if that worked."""
        engine = self._statement.engine
        count = engine.connections.broken_count()
        if self._statement.allow != "read" or count == self._broken_count:
            return False
        self._broken_count = count
        try:
            frame = engine.planned(self._statement.query).frame
            for step in self._steps:
                frame = step(frame)
        except Exception:  # noqa: BLE001 - it names them; so the first error is what matters
            return False
        self._planned, self._direct = Planned(frame), None
        return True

    def _plan(self) -> Planned:
        ENGINE.check()
        if self._planned is None:
            statement = self._statement
            self._planned = statement.engine.planned(statement.query, allow=statement.allow)
        return self._planned

    def _executed(self) -> datafusion.DataFrame:
        """Return what is executed for the rows of the query itself; `frame` is to build upon."""
        return self._plan().executed

    def collect(self) -> list[pa.RecordBatch]:
        """Return the rows as batches of Arrow."""

        def collect() -> list[pa.RecordBatch]:
            direct = self._direct
            if direct is None:
                return call_engine(self._executed().collect)
            return list(direct.batches())

        return self._run(collect)

    def count(self) -> int:
        """Return the number of rows."""

        def count() -> int:
            direct = self._direct
            if direct is None:
                return int(call_engine(self._executed().count))
            return int(direct.to_table().num_rows)

        return self._run(count)

    def _computed(self) -> pa.Table:
        direct = self._direct
        if direct is None:
            return call_engine(self._executed().to_arrow_table)
        return direct.to_table()

    def provenance(self) -> dict[str, Any]:
        """Return what files of these rows say of where they come from; see `daf_query.provenance`.

        The SQL has the values of its parameters in it.
        """
        asked = dict(self._statement.asked)
        if self._written:
            asked["then"] = list(self._written)
        return record_of(self._statement.engine.connections.data_sets(), asked)

    def _refuse_own_files(self, path: Path) -> None:
        refuse_own_files(self._statement.engine.connections.data_sets(), path)

    def is_described(self, provenance: bool | None) -> bool:  # noqa: FBT001 - as it was given
        """Return whether what leaves says where it comes from; None: as the session says."""
        connected: bool = self._statement.engine.connections.provenance
        return connected if provenance is None else provenance

    def to_arrow_table(self, *, provenance: bool = False) -> pa.Table:
        """Return the rows as an Arrow table; whole columns are views of the mapped file.

        Parameters
        ----------
        provenance
            Whether the metadata of its schema say where the rows come from.
        """
        table = with_categories(self._run(self._computed))
        return self._described(table, is_wanted=provenance)

    def _described(self, table: pa.Table, *, is_wanted: bool) -> pa.Table:
        return described(table, self.provenance()) if is_wanted else table

    def to_pydict(self) -> dict[str, list[Any]]:
        """Return a list of Python values per column."""
        rows: dict[str, list[Any]] = self._as_python("to_pydict")
        return rows

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
        rows: list[dict[str, Any]] = self._as_python("to_pylist")
        return rows

    def _as_python(self, form: str) -> Any:
        def convert() -> Any:
            direct = self._direct
            if direct is None:
                return call_engine(getattr(self._executed(), form))
            return getattr(direct.to_table(), form)()

        return self._run(convert)

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
        stream: Iterator[Any] = iter(())
        call: Callable[[Callable[[], Any]], Any] = call_engine

        def begin() -> Any:
            nonlocal stream, call
            if self._direct is None:
                stream = iter(call_engine(self._executed().execute_stream))
            else:
                stream, call = self._direct.batches(), _called
            return call(lambda: next(stream, None))

        def batches(batch: Any) -> Iterator[pa.RecordBatch]:
            while batch is not None:
                yield batch if isinstance(batch, pa.RecordBatch) else batch.to_pyarrow()
                try:
                    batch = call(lambda: next(stream, None))
                except Exception as error:  # noqa: BLE001 - as above
                    raise self._statement.translated(error) from None

        first = self._run(begin)
        found = Rows(self.schema, batches(first))
        return found.with_record(self.provenance()) if self.is_described(provenance) else found


@attended
def _called(function: Callable[[], _T]) -> _T:
    return function()


class TableResult(QueryResult):
    """The rows of an Arrow table, which is in memory, asked like those of a query.

    Parameters
    ----------
    title
        What the rows are, for messages.
    asked
        What was asked, for the provenance.
    """

    def __init__(
        self, engine: Engine, table: pa.Table, title: str, asked: Mapping[str, Any]
    ) -> None:
        statement = Statement(engine, title, "read", asked)
        count = engine.connections.broken_count()
        super().__init__(statement, Planned(table_frame(table)), broken_count=count)
        self._table = table

    def count(self) -> int:
        """Return the number of rows."""
        return int(self._table.num_rows)

    def _is_query(self) -> bool:
        """Return False: in the place of the query is a title."""
        return False

    def _first_rows(self, count: int) -> pa.Table:
        return self._table.slice(0, count)

    def to_arrow_table(self, *, provenance: bool = False) -> pa.Table:
        """Return the rows as an Arrow table, which is not copied."""
        return self._described(self._table, is_wanted=provenance)


Call: TypeAlias = Callable[[Callable[[], Any]], Any]
"""Calls a function, which may be interrupted."""


def interruptible_rows(result: QueryResult, interruptible: Call) -> Rows:
    """Return the rows of a result, as `QueryResult.rows` does, by calls that may be interrupted.

    That is safe within the engine alone.  A direct scan runs Python, whose locks and caches an
    exception from outside could leave half changed: it is called plainly, and asks between its
    partitions whether it is to end.

    Parameters
    ----------
    interruptible
        Calls a function of the engine.
    """
    call = _called if result._is_direct() else interruptible  # noqa: SLF001
    rows: Rows = call(result.rows)
    stream = iter(rows.batches)

    def batches() -> Iterator[pa.RecordBatch]:
        while (batch := call(lambda: next(stream, None))) is not None:
            yield batch

    return Rows(rows.schema, batches())
