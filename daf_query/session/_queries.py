"""Data sets that are connected, and what SQL says of them: answers, plans, tables and views.

The table functions of SQL, ``matrix(...)`` and its like, are methods of a session, as tables.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from daf_query._calls import Advised
from daf_query.session._later import (
    combined,
    dataframes,
    engines,
    layouts,
    moments,
    profiles,
    slices,
    syntax,
    tables,
)
from daf_storage import DafReader, DafWriter, errors
from daf_storage.data import writing_remedy

if TYPE_CHECKING:
    import polars as pl

ViewAxes: TypeAlias = Mapping[str, Any] | Sequence[tuple[str, Any]]
"""By its name in the view: which axis of the base it is, and which of its entries."""

ViewData: TypeAlias = Mapping[Any, str | None] | Sequence[tuple[Any, str | None]]
"""By its name in the view, a string or a tuple: what each scalar, vector and matrix is."""

_ANY: Final = "*"
_SAME: Final = "="


CACHE_BYTES = 512 << 20
"""Default size of the decode cache of a session, in bytes."""
PROFILE_MAX_BYTES = 4 << 30
"""How large a profile may be by default, in bytes."""


class Queries(Advised):
    """Data sets that are connected, and the questions about them that are SQL."""

    def __init__(self, connections: engines.Connections) -> None:
        self._connections = connections
        self._default = connections.default

    @property
    def _engine(self) -> engines.Engine:
        """The engine that plans queries, made when the first one is asked."""
        made: engines.Engine | None = vars(self).get("_made")
        if made is None:  # of two threads that make one the first wins
            connections, default = self._connections, self._default
            tables = engines.Tables(connections.schemas, default)
            engine = engines.Engine(connections, TABLE_FUNCTIONS, tables)
            engines.ENGINE.note_start()
            made = vars(self).setdefault("_made", engine)
        return made

    def reader(self, schema: str | None = None) -> DafReader:
        """Return the reader of a data set; with one connected, of that.

        Raises
        ------
        InvalidInputError
            There are several behind it, or several are connected and none was named.
        NotFoundError
            There is no such schema.
        """
        return self._connections.reader(schema)

    def members(self, schema: str | None = None) -> dict[str, DafReader]:
        """Return the data sets behind a schema: several by name that are asked as one, or the one.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> runs = [daf_storage.MemoryDaf(name=name) for name in ("first_run", "second_run")]
        >>> list(connect(runs).members())
        ['first_run', 'second_run']
        """
        return self._connections.schema(schema).readers()

    def _choices(self, needed: list[str]) -> str:
        """Return the matrices, the axes or the tables that there are."""
        every = self._connections.schemas.values()
        if "query" in needed:
            names = errors.shown_names(self._connections.table_names, none="no table")
            return f"a query is SQL over the tables {names}; $x is params={{'x': ...}}"
        if "columns_axis" in needed:
            summaries = [daf.summary() for each in every for daf in each.readers().values()]
            matrices = {
                f"({', '.join(map(repr, (*found.axes_of(matrix.info), matrix.info.name)))})"
                for found in summaries
                for matrix in found.matrices
            }
            return f"the matrices are {errors.shown_names(matrices)}"
        if "axis" in needed:
            axes = {axis for each in every for axis in each.axes_set()}
            return f"the axes are {errors.shown_names(axes)}"
        return ""

    def _writable(self, schema: str | None, *axes: str) -> tuple[str, DafWriter]:
        """Return the name of a schema, and its data set, which has axes and can be changed."""
        tables = self._connections.schema(schema)
        name, daf = tables.name, self._connections.reader(tables.name)
        tables.having(*axes)
        if not isinstance(daf, DafWriter):
            raise errors.ReadOnlyError(f"{daf.location}: {writing_remedy(daf)}")
        return name, daf

    def _served(self, memory_bytes: int | None = None) -> Self:
        """Return a session of the same data sets for a service, whose queries read no other files.

        Parameters
        ----------
        memory_bytes
            How much memory all its queries together may take.
        """
        session = object.__new__(type(self))
        vars(session).update(vars(self), _made=self._engine.served(memory_bytes))
        return session

    def sql(
        self, query: str, *, params: engines.Params | None = None, allow: engines.Allow = "read"
    ) -> engines.QueryResult:
        """Plan a SQL query; rows are computed when the result is asked for them.

        Parameters
        ----------
        query
            One statement.  Tables are the axes, ``matrices``, ``relations`` and ``scalars``;
            identifiers keep their case.
        params
            Values for its parameters: a list for ``?`` or ``$1``, a mapping for ``$name``.  After
            IN, a value is a list (``donor IN $donors``).  None is NULL, which equals nothing.
        allow
            ``read`` refuses whatever changes something: CREATE, INSERT, COPY, SET and so on.

        Returns
        -------
        QueryResult
            With ``to_pandas()``, ``to_polars()``, ``to_duckdb()``, ``to_arrow_table()``,
            ``to_pylist()``, ``batches()``, ``save(path)``, ``filter(...)`` and more.

        Raises
        ------
        QueryError
            The SQL is wrong; a syntax error says where.
        VectorNotFoundError, AxisNotFoundError
            A column or table is unknown; the message lists those that exist.
        ReadOnlyError
            The query would change something.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.set_vector("cell", "age", [1, 2, 3])
        >>> db = connect(daf)
        >>> db.sql("SELECT name FROM cell WHERE age > $least", params={"least": 2}).to_pydict()
        {'name': ['C']}
        """
        return engines.query_result(self._engine, engines.bind(query, params), allow=allow)

    def explain(self, query: str, *, params: engines.Params | None = None) -> engines.QueryPlan:
        """Plan a query and return the plan; nothing is executed.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.set_vector("cell", "age", [1, 2, 3])
        >>> print(connect(daf).explain("SELECT name FROM cell WHERE age > 2").logical)
        TableScan: cell projection=[name], full_filters=[cell.age > Int64(2)]
        """
        with engines.reporting() as reports:
            plan = self.sql(query, params=params).explain()
        notes = {name: note for report in reports for name, note in report.notes.items()}
        return replace(plan, notes=notes)

    def explain_analyze(
        self, query: str, *, params: engines.Params | None = None
    ) -> engines.Explanation:
        """Run a query and report what it cost: zones left out and read, values of each column.

        The engine runs it, also where it would be answered without it (`QueryPlan.direct`).

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.set_vector("cell", "age", [1, 2, 3])
        >>> daf.set_vector("cell", "score", [0.1, 0.2, 0.3])
        >>> report = connect(daf).explain_analyze("SELECT score FROM cell WHERE age > 2")
        >>> report.rows, report.scans[0].values
        (1, {'age': 3, 'score': 1})
        """
        with engines.reporting() as reports:
            started = time.perf_counter()
            result = self.sql(query, params=params)
            rows = sum(batch.num_rows for batch in result.collect())
            seconds = time.perf_counter() - started
            plan = result.explain().physical
            scans = tuple(report for report in reports if report.read)
        hits = sum(report.cache_hits for report in reports)
        return engines.Explanation(query, seconds, rows, scans, hits, plan)

    def diagnose(
        self,
        axis: str,
        predicate: str,
        *,
        params: engines.Params | None = None,
        schema: str | None = None,
    ) -> engines.Diagnosis:
        """Count the rows that each part of a predicate leaves, and say why it leaves none.

        Each part that AND joins is counted alone, and with all before it, by queries of their own.
        Strings that do not occur come with the nearest that do, numbers with the range of their
        column, and constants of the wrong type with what to write.

        Parameters
        ----------
        axis
            The axis whose rows are counted.
        predicate
            As for ``rows=`` of `matrix`, also in Python's spellings; ORDER BY and LIMIT are left
            out.  Or a SELECT of this one table, of whose WHERE is asked.
        params
            Values for its parameters, as for `sql`.
        schema
            Which data set, where several are connected.

        Returns
        -------
        Diagnosis
            Printed as a table; ``conjuncts`` has its rows, ``to_dict()`` everything.

        Raises
        ------
        AxisNotFoundError
            There is no such axis.
        QueryError
            It is no SQL, or of several tables.  A part that fails for another reason, such as an
            unknown column, is reported.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.set_vector("cell", "age", [1, 2, 3])
        >>> daf.set_vector("cell", "donor", ["N1", "N3", "N3"])
        >>> connect(daf).diagnose("cell", "age > 1 AND donor = 'n3'")
        0 of 3 rows of cell match
          alone  so far  condition
              2       2  age > 1
              0       0  donor = 'n3'
                           'n3' does not occur in donor; nearest: 'N3' (2 rows)
        """
        found = self._connections.schema(schema).having(axis)
        bound = engines.bind(predicate, params)
        is_select = syntax.is_select(bound)
        return engines.diagnose(self._engine, found.name, axis, bound, select=is_select)

    def matrix_columns(
        self, axis: str, written: str, *, schema: str | None = None
    ) -> dict[str, tuple[str, str, str]]:
        """Return what `table` takes as ``matrix_columns=``, of entries as SQL names them.

        Parameters
        ----------
        written
            Entries of matrices with commas between them, each with AS and a name, if it is to have
            another one: ``"X['CD8A'], X['CD3E'] AS cd3e"``.
        schema
            Which data set, where several are connected.

        Raises
        ------
        AxisNotFoundError, MatrixNotFoundError, EntryNotFoundError
            There is no such axis, matrix or entry.
        QueryError
            It is written wrongly.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B"])
        >>> daf.add_axis("gene", ["CD8A", "CST3"])
        >>> daf.set_matrix("cell", "gene", "X", [[0.0, 5.0], [2.0, 0.0]])
        >>> connect(daf).matrix_columns("cell", "X['CD8A'], X['CST3'] AS cst3")
        {"X['CD8A']": ('gene', 'X', 'CD8A'), 'cst3': ('gene', 'X', 'CST3')}
        """
        found = self._connections.schema(schema).having(axis)
        entries = engines.entry_columns(found, axis, written)
        return {name: (each.axis, each.matrix, each.entry) for name, each in entries.items()}

    def requirements(self, query: str, *, schema: str | None = None) -> engines.QueryRequirements:
        """Return what another engine needs to answer a query; nothing but metadata is read.

        Parameters
        ----------
        query
            It may be written for the other engine: what cannot be planned here needs every column
            that it may name.
        schema
            Which data set, where several are connected.

        Returns
        -------
        QueryRequirements
            The query with a quoted name for each ``X['CD8A']``, and by axis the ``columns``, the
            ``predicate`` of the rows, and the ``entries`` of matrices.

        Raises
        ------
        EntryNotFoundError, QueryError
            An entry of a matrix is not there, or written wrongly.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.set_vector("cell", "age", [1, 2, 3])
        >>> daf.set_vector("cell", "donor", ["N1", "N2", "N2"])
        >>> needs = connect(daf).requirements("SELECT donor FROM cell WHERE age > 2")
        >>> needs.tables["cell"].columns, needs.tables["cell"].predicate
        (('age', 'donor'), Compare(column='age', operator='>', value=2))
        """
        return engines.requirements_of(self._connections.schema(schema), query)

    def table(
        self,
        axis: str,
        *,
        schema: str | None = None,
        matrix_columns: Mapping[str, tuple[str, str, str]] | None = None,
        columns: Iterable[str] | None = None,
    ) -> tables.TableDataset:
        """Return the table of an axis as a pyarrow Dataset, for DuckDB, polars and pyarrow.

        Parameters
        ----------
        schema
            Which data set, where several are connected.
        matrix_columns
            More columns, by name: the other axis of a matrix, its name, and an entry of that axis,
            such as ``("gene", "X", "CD8A")``.  In a collection, it is NULL for those
            that lack it.
        columns
            The only columns of the axis that are needed, also for filters.  Of many data sets as
            one, the metadata of others are not read, and the table may lack these.

        Raises
        ------
        AxisNotFoundError, MatrixNotFoundError, EntryNotFoundError
            There is no such axis, matrix or entry.
        ExistsError
            The table has a column of that name.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B"])
        >>> daf.add_axis("gene", ["CD8A", "CST3"])
        >>> daf.set_matrix("cell", "gene", "X", [[0.0, 5.0], [2.0, 0.0]])
        >>> table = connect(daf).table("cell", matrix_columns={"cd8": ("gene", "X", "CD8A")})
        >>> table.to_table(columns=["name", "cd8"]).to_pydict()
        {'name': ['A', 'B'], 'cd8': [0.0, 2.0]}
        """
        found = self._connections.schema(schema).having(axis)
        table = found.dataset(axis, None if columns is None else frozenset(columns))
        return tables.with_matrix_columns(table, matrix_columns or {})

    def lazy_frame(
        self,
        axis: str,
        *,
        schema: str | None = None,
        matrix_columns: Mapping[str, tuple[str, str, str]] | None = None,
    ) -> pl.LazyFrame:
        """Return the table of an axis as a LazyFrame of polars; nothing is read until it is used.

        It reads the columns, the rows of the filter, and the first rows that its query needs.

        Parameters
        ----------
        schema, matrix_columns
            As for `table`.

        Raises
        ------
        AxisNotFoundError, MatrixNotFoundError, EntryNotFoundError
            There is no such axis, matrix or entry.
        MissingDependencyError
            polars is not installed.

        Examples
        --------
        >>> import daf_storage, polars as pl
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.set_vector("cell", "age", [1, 2, 3])
        >>> frame = connect(daf).lazy_frame("cell")
        >>> frame.filter(pl.col("age") > 1).select("name").collect().to_dict(as_series=False)
        {'name': ['B', 'C']}
        """
        table = self.table(axis, schema=schema, matrix_columns=matrix_columns)
        frame: pl.LazyFrame = dataframes.scan_polars(table)
        return frame

    def view(
        self,
        axes: ViewAxes | None = None,
        data: ViewData | None = None,
        *,
        params: engines.Params | None = None,
        schema: str | None = None,
    ) -> Self:
        """Return a session over a part of a data set, under other names; nothing is copied.

        See `daf_storage.view` for what is shown, and under which names.  Here SQL may say which
        entries of an axis, and whatever else `matrix` takes as ``rows=``.

        Parameters
        ----------
        axes
            By the name in the view: a predicate on this axis (``{"cell": "n_genes > 1000"}``), also
            with ORDER BY and LIMIT; a SELECT of ``name`` or ``index``; names, positions or a mask.
            With an axis of another name, a pair: ``{"t_cell": ("cell", "type = 'T'")}``.  A string
            that is the name of an axis, ``"="`` and None are as for `daf_storage.view`.
        data
            As for `daf_storage.view`.
        params
            Values for the parameters of predicates and SELECTs, as for `sql`; of all together.
        schema
            Which data set, where several are connected.

        Returns
        -------
        DafSession
            Its ``reader()`` is the view, a `DafReader` that can be connected and copied.
            It has the entries that match now.  Closing it leaves this session open.

        Raises
        ------
        QueryError, NotFoundError
            A predicate is wrong; or there is no such axis, entry or property.
        InvalidInputError
            There are several data sets behind it.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.set_vector("cell", "age", [1, 3, 2])
        >>> part = connect(daf).view({"cell": "age > 1 ORDER BY age"}, {("cell", "years"): "age"})
        >>> part.sql("SELECT name, years FROM cell").to_pydict()
        {'name': ['C', 'B'], 'years': [2, 3]}
        """
        name = self._connections.schema(schema).name
        daf = self._connections.reader(name)
        pairs = list(axes.items()) if isinstance(axes, Mapping) else list(axes or ())
        chosen = [_chosen(daf, shown, value) for shown, value in pairs]
        written = [entries if isinstance(entries, str) else "" for _, entries in chosen]
        bound = engines.bind_all(written, params)
        resolved: list[tuple[str, Any]] = []
        for (shown, value), (base, entries), sql in zip(pairs, chosen, bound, strict=True):
            if base is None or entries is None:
                resolved.append((shown, value))
            else:
                rows = slices.AxisRows.of(self._engine, name, base)
                resolved.append((shown, (base, rows.chosen(sql or entries, "axes"))))
        shown_axes = dict(resolved) if isinstance(axes, Mapping) else resolved
        view = combined.view(daf, None if axes is None else shown_axes, data)
        return type(self)(replace(self._connections, sources={name: view}))


def _chosen(daf: DafReader, name: str, value: Any) -> tuple[str | None, slices.Selector]:
    """Return the axis of the base, and which of its entries are asked for; None for all of them."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
        return value
    is_name = isinstance(value, str) and (value == _SAME or daf.has_axis(value))
    if is_name or value is None or name == _ANY:
        return None, None
    return name, value


def matrix_table(request: slices.SliceRequest) -> tables.TableDataset:
    """Return the long form of a matrix; see `DafSession.matrix_table`."""
    schema = request.tables
    if request.rows is None and request.columns is None:
        return schema.matrix_table(*request.axes, request.name)
    found = slices.matrix_axes(request)
    rows, columns = (
        {
            key: layouts.Selection.of(own, daf.axis_length(axis.axis))
            for key, daf, _, own in axis.parts(selection.positions)
        }
        for axis, selection in zip(found.axes, found.selections, strict=True)
    )
    return schema.matrix_table(*request.axes, request.name, rows=rows, columns=columns)


def _request(engine: engines.Engine, call: engines.TableCall) -> slices.SliceRequest:
    return slices.SliceRequest(engine, join="outer", max_bytes=PROFILE_MAX_BYTES, **call)


def _matrix(engine: engines.Engine, call: engines.TableCall) -> tables.TableDataset:
    return matrix_table(_request(engine, call))


def _profile(engine: engines.Engine, call: engines.TableCall) -> tables.ComputedDataset:
    """Return the moments of groups of rows; these are grouped now, the matrix is read later."""
    prepared, _ = profiles.prepared_profile(_request(engine, call))
    return tables.ComputedDataset(
        prepared.schema, lambda: prepared.compute(progress="never").to_table()
    )


def _markers(engine: engines.Engine, call: engines.TableCall) -> tables.ComputedDataset:
    """Return how groups of rows differ from the rest, by Welch's t-test of logarithms."""
    request = _request(engine, call)
    prepared, _ = profiles.prepared_profile(request, moments.MARKER_STATISTICS)
    return tables.ComputedDataset(
        moments.marker_schema(prepared.groups.columns, prepared.axes[1].axis),
        lambda: moments.marker_table(prepared.compute(progress="never"), is_log1p=True),
    )


def _totals(engine: engines.Engine, call: engines.TableCall) -> tables.ComputedDataset:
    """Return what each row has of the chosen columns."""
    prepared, _ = profiles.prepared_totals(_request(engine, call))
    return tables.ComputedDataset(prepared.schema, prepared.compute)


TABLE_FUNCTIONS: Final[Mapping[str, engines.TableFunction]] = {
    "matrix": _matrix,
    "profile": _profile,
    "markers": _markers,
    "totals": _totals,
}
"""By name."""
