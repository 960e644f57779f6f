"""Data sets that are connected, and questions about them: answers of SQL, slices, profiles, views.

The table functions of SQL, ``matrix(...)`` and its like, are methods of a session, as tables.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from daf_query._calls import Advised, positive_number
from daf_query._runs import attended
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
    training,
)
from daf_storage import DafReader, DafWriter, ShowProgress, errors
from daf_storage.base import check_choice, progress_bar
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
    """Data sets that are connected, and the questions about them: of SQL, and of matrices."""

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
        bound = _bound(params, [entries for _, entries in chosen], [])
        resolved: list[tuple[str, Any]] = []
        for (shown, value), (base, _), entries in zip(pairs, chosen, bound, strict=True):
            if base is None or entries is None:
                resolved.append((shown, value))
            else:
                rows = slices.AxisRows.of(self._engine, name, base)
                resolved.append((shown, (base, rows.chosen(entries, "axes"))))
        shown_axes = dict(resolved) if isinstance(axes, Mapping) else resolved
        view = combined.view(daf, None if axes is None else shown_axes, data)
        return type(self)(replace(self._connections, sources={name: view}))

    def _request(
        self,
        schema: str | None,
        params: engines.Params | None,
        axes: tuple[str, str],
        name: str,
        *chosen: Any,
        **how: Any,
    ) -> slices.SliceRequest:
        """Return a request: its rows, columns and groups have the values of parameters."""
        rows, columns, by = _bound(params, chosen, [how.pop("by", ())])
        if how.get("max_bytes") is not None:
            how["max_bytes"] = slices.byte_count(how["max_bytes"])
        tables = self._connections.schema(schema)
        return slices.SliceRequest(self._engine, tables, axes, name, rows, columns, by=by, **how)

    @attended
    def matrix(  # noqa: PLR0913 - what is chosen, and how
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        rows: slices.Selector = None,
        columns: slices.Selector = None,
        params: engines.Params | None = None,
        max_bytes: slices.ByteSize | None = None,
        schema: str | None = None,
        join: layouts.Join = "inner",
        fill_value: float | str | None = None,
        along: str | None = None,
    ) -> slices.MatrixSlice:
        """Choose a slice of a matrix; its values are read when they are asked for.

        In a collection (``connect("runs/*.daf.zarr")``) it has the entries of all of
        them: those of one axis one after the other, in the order of the union table, and those of
        the other axis aligned by name.

        Parameters
        ----------
        rows, columns
            Which entries of each axis; all by default.  A SQL predicate on that axis
            (``"age > 60 AND donor = 'N3'"``), also with ORDER BY and LIMIT; a whole SELECT that
            yields ``index`` or ``name`` (joins allowed), or its result; names; positions, as
            integers, a slice or a range; a boolean mask of the axis's length; or a data frame
            with a column ``name`` or ``index``.  Names, positions and masks may be lists, sets,
            or columns of numpy, pandas, polars or Arrow; all but sets keep their order and their
            duplicates.  SQL yields the order of the axis unless it says ORDER BY, and each
            entry once.
        params
            Values for the parameters of predicates and SELECTs, as for `sql`; those of rows and
            columns together.
        max_bytes
            How much memory the result may take: a number of bytes, or ``"500MB"``, ``"2GiB"``.
            The result is what `MatrixSlice.values` returns: CSR if the matrix is stored sparse,
            else dense.  From a server, no more than that is downloaded either.  By default there is
            no limit.
        schema
            Which data set, where several are connected.
        join
            In a collection, which entries the aligned axis has: those that all data
            sets with this matrix have (``inner``), or those of any (``outer``).
        fill_value
            In a collection, what stands where one of them lacks an entry.  By default
            0 if the matrix is sparse in any of them, else NaN; of strings the empty string.
        along
            In a collection, the axis whose entries are put one after the other.  By
            default that of the observations: what ``obs_is`` of an imported AnnData says, or
            ``obs``, ``cell`` or ``metacell``; if neither axis is, that of the rows.

        Returns
        -------
        MatrixSlice
            With ``to_scipy``, ``to_numpy``, ``to_pandas``, ``to_polars``, ``to_arrow``,
            ``to_anndata`` and ``save``.  A filter that matches nothing yields an empty slice.  Of
            a collection, `MatrixSlice.datasets` says of which each entry is.

        Raises
        ------
        NotFoundError
            An axis, matrix, column or entry is unknown; the message lists those that exist.
        QueryError
            A predicate is wrong.
        BudgetError
            The result may take more than ``max_bytes``; the message has the figures of
            `MatrixSlice.explain`, and nothing of the matrix was read.
        InvalidInputError
            ``max_bytes`` is no size.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["TATA", "GATA"])
        >>> daf.add_axis("gene", ["FOXA1", "WNT6"])
        >>> daf.set_matrix("cell", "gene", "UMIs", [[0, 1], [2, 3]])
        >>> part = connect(daf).matrix("cell", "gene", "UMIs", rows="name = 'GATA'")
        >>> part.to_numpy().tolist()
        [[2, 3]]
        """
        axes = rows_axis, columns_axis
        how = {"join": join, "fill_value": fill_value, "along": along, "max_bytes": max_bytes}
        return slices.matrix_slice(self._request(schema, params, axes, name, rows, columns, **how))

    @attended
    def matrix_table(
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        rows: slices.Selector = None,
        columns: slices.Selector = None,
        params: engines.Params | None = None,
        schema: str | None = None,
    ) -> tables.TableDataset:
        """Return the long form of a matrix as a pyarrow Dataset, for DuckDB, polars and pyarrow.

        It has a row for each stored element of a sparse matrix, explicit zeros included, and for
        every element of a dense one.  The columns are the two axes, dictionaries of their entries
        (``AXIS`` and ``AXIS_2`` for a matrix of an axis with itself), and ``value``, where NaN is
        NULL.  It is scanned in blocks: filters on the axes become slices, and only these are read.
        In SQL it is ``matrix('cell', 'gene', 'X')``.

        Parameters
        ----------
        rows, columns
            Which entries of each axis, as for `matrix`; each counts once, in any order.
        params
            Values for the parameters of predicates and SELECTs, as for `sql`.
        schema
            Which data set, where several are connected.

        Raises
        ------
        NotFoundError
            An axis, matrix, column or entry is unknown; the message lists those that exist.
        QueryError
            A predicate is wrong.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["TATA", "GATA"])
        >>> daf.add_axis("gene", ["FOXA1", "WNT6"])
        >>> daf.set_matrix("cell", "gene", "UMIs", [[0, 1], [2, 3]])
        >>> db = connect(daf)
        >>> db.matrix_table("cell", "gene", "UMIs", rows=["GATA"]).to_table().to_pydict()
        {'cell': ['GATA', 'GATA'], 'gene': ['FOXA1', 'WNT6'], 'value': [2, 3]}
        """
        axes = rows_axis, columns_axis
        return matrix_table(self._request(schema, params, axes, name, rows, columns, join="outer"))

    @attended
    def profile(  # noqa: PLR0913 - the choices of a profile
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        by: engines.By = (),
        rows: slices.Selector = None,
        columns: slices.Selector = None,
        params: engines.Params | None = None,
        schema: str | None = None,
        max_bytes: slices.ByteSize | None = PROFILE_MAX_BYTES,
        progress: ShowProgress = "auto",
        join: layouts.Join = "outer",
        fill_value: float | None = None,
        along: str | None = None,
    ) -> profiles.Profile:
        """Compute what a matrix is like in each group of its rows, column by column.

        The matrix is read once, in blocks, on all cores, from the stored layout that fits; the
        memory that this takes does not depend on its size, but on that of the result.

        Parameters
        ----------
        by
            What the rows are grouped by: a vector (``"bulk_labels"``), an SQL expression over the
            axis (``"age > 60"``), or a list of such; each may end in ``AS name``, which is then
            the name of its column.  Without any, all rows are one group.  NULL is a group too.
        rows, columns
            Which entries of each axis, as for `matrix`.  A row that is chosen twice counts twice.
        params
            Values for the parameters of all of these, as for `sql`.
        schema
            Which data set, where several are connected.
        max_bytes
            How large the result may be, and how much is downloaded from a server: a number of
            bytes, or ``"500MB"``, ``"2GiB"``; 4 GiB by default, None for no limit.
        progress
            Whether to show a bar on stderr.
        join, along
            In a collection, as for `matrix`; all columns by default.
        fill_value
            What stands where one of them lacks a column; by default a missing value, so that its
            rows are counted as ``missing``.

        Returns
        -------
        Profile
            A query result with ``count``, ``missing``, ``nonzero``, ``sum``, ``mean``,
            ``variance``, ``min`` and ``max`` of each group and column, in the order of the groups,
            which is ascending, or that of the categories; with ``to_anndata`` and ``plot``.

        Raises
        ------
        NotFoundError
            An axis, matrix, column or entry is unknown; the message lists those that exist.
        QueryError
            A predicate or an expression is wrong.
        InvalidInputError
            Two columns would have one name; or the rows are of an aligned axis.
        UnsupportedInputError
            It is a matrix of strings.
        BudgetError
            The result or the download would be larger than ``max_bytes``.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.add_axis("gene", ["FOXA1", "WNT6"])
        >>> daf.set_vector("cell", "age", [30, 60, 90])
        >>> daf.set_matrix("cell", "gene", "UMIs", [[0, 1], [2, 3], [4, 5]])
        >>> profile = connect(daf).profile("cell", "gene", "UMIs", by="age > 40 AS old")
        >>> profile.select("old", "gene", "count", "mean").to_pylist()
        [{'old': False, 'gene': 'FOXA1', 'count': 1, 'mean': 0.0},
         {'old': False, 'gene': 'WNT6', 'count': 1, 'mean': 1.0},
         {'old': True, 'gene': 'FOXA1', 'count': 2, 'mean': 3.0},
         {'old': True, 'gene': 'WNT6', 'count': 2, 'mean': 4.0}]
        """
        axes = rows_axis, columns_axis
        how = {"join": join, "fill_value": fill_value, "along": along, "max_bytes": max_bytes}
        request = self._request(schema, params, axes, name, rows, columns, by=by, **how)
        prepared, requested = profiles.prepared_profile(request)
        content = prepared.compute(progress=progress)
        return profiles.Profile(self._engine, prepared.whole, content, requested)

    @attended
    def markers(  # noqa: PLR0913 - the choices of a profile, and of a test
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        by: engines.By,
        reference: Any = "rest",
        method: profiles.MarkerTest = "t-test",
        is_log1p: bool = True,
        tie_correct: bool = False,
        top: int | None = None,
        rows: slices.Selector = None,
        columns: slices.Selector = None,
        params: engines.Params | None = None,
        schema: str | None = None,
        max_bytes: slices.ByteSize | None = PROFILE_MAX_BYTES,
        memory_bytes: slices.ByteSize = "1GiB",
        progress: ShowProgress = "auto",
        join: layouts.Join = "outer",
        fill_value: float | None = None,
        along: str | None = None,
    ) -> engines.TableResult:
        """Compare each group of rows with the others, column by column: marker genes.

        Welch's t-test needs one pass over the matrix, in bounded memory, as a profile does; the
        rank-sum test of Wilcoxon reads as many columns at a time as fit into ``memory_bytes``.
        Both give what ``scanpy.tl.rank_genes_groups`` gives for values in double precision.

        Parameters
        ----------
        by
            What the rows are grouped by, as of `profile`.  Rows of which it is NULL are no group,
            but belong to the rest.
        reference
            ``"rest"`` compares each group with all other chosen rows; a group compares the others
            with that one: its value or the text of it; of several group columns a tuple of values.
        method
            ``"t-test"`` or ``"wilcoxon"``.
        is_log1p
            Whether the values are logarithms of counts and 1, as after ``scanpy.pp.log1p``: their
            means are turned back before fold changes are taken.
        tie_correct
            Whether the rank-sum test corrects for ties.
        top
            How many columns of each group, those with the highest scores; all by default.
        memory_bytes
            How much the values may take that are ranked at a time.
        join, fill_value, along
            In a collection, as for `profile`.

        Other parameters are those of `profile`.

        Returns
        -------
        TableResult
            A row for each group and column of the matrix, group by group, the highest scores
            first: the group columns, the entry in a column that is named as its axis, ``score``,
            ``log_fold_change`` (binary), ``pvalue``, ``pvalue_adjusted`` (by Benjamini and
            Hochberg, within each group), ``mean``, ``mean_rest``, ``fraction`` (of values that are
            not zero) and ``fraction_rest``.  NULL where a group has too few values.

        Raises
        ------
        InvalidInputError
            There are fewer than two groups, the reference is not one of them, or the method none.
        NotFoundError, QueryError, BudgetError
            As of `profile`.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C", "D"])
        >>> daf.add_axis("gene", ["FOXA1", "WNT6"])
        >>> daf.set_vector("cell", "type", ["T", "T", "B", "B"])
        >>> daf.set_matrix("cell", "gene", "X", [[0.0, 1.0], [1.0, 2.0], [5.0, 1.0], [6.0, 2.0]])
        >>> markers = connect(daf).markers("cell", "gene", "X", by="type", is_log1p=False)
        >>> markers.select("type", "gene", "round(score, 2) AS score", "mean").head(2).to_pylist()
        [{'type': 'B', 'gene': 'FOXA1', 'score': 7.07, 'mean': 5.5},
         {'type': 'B', 'gene': 'WNT6', 'score': 0.0, 'mean': 1.5}]
        """
        axes = rows_axis, columns_axis
        how = {"join": join, "fill_value": fill_value, "along": along, "max_bytes": max_bytes}
        request = self._request(schema, params, axes, name, rows, columns, by=by, **how)
        check_choice(method, profiles.MarkerTest, "method")
        top = None if top is None else positive_number(top, "top")
        prepared, requested = profiles.prepared_profile(request, moments.MARKER_STATISTICS)
        table = profiles.marker_rows(
            request,
            prepared,
            reference=reference,
            method=method,
            is_log1p=is_log1p,
            tie_correct=tie_correct,
            top=top,
            memory_bytes=slices.byte_count(memory_bytes, keyword="memory_bytes"),
            progress=progress,
        )
        title = f"the markers of {name!r} over {' x '.join(axes)}"
        requested |= {"markers": {"reference": reference, "method": method}}
        return engines.TableResult(self._engine, table, title, requested)

    @attended
    def totals(  # noqa: PLR0913 - what is chosen, and how
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        rows: slices.Selector = None,
        columns: slices.Selector = None,
        params: engines.Params | None = None,
        schema: str | None = None,
        max_bytes: slices.ByteSize | None = PROFILE_MAX_BYTES,
        progress: ShowProgress = "auto",
        join: layouts.Join = "outer",
        along: str | None = None,
    ) -> engines.TableResult:
        """Add up chosen columns for each row: counts, genes and shares of quality control.

        The matrix is read once, in blocks, on all cores.

        Parameters
        ----------
        rows, columns
            Which entries of each axis, as for `matrix`; the columns are what is added up.
        params, schema, join, along
            As for `matrix`.
        max_bytes
            Refuse to download more from a server; None for any size.
        progress
            Whether to show a bar on stderr.

        Returns
        -------
        TableResult
            A row for each chosen row: ``name``, ``index``, ``sum``, ``nonzero`` (how many are not
            zero), ``mean`` (zeros counted) and ``share``, the sum divided by that over all columns;
            NULL where that is 0.  In a collection ``dataset`` comes first.

        Raises
        ------
        NotFoundError
            An axis, matrix, column or entry is unknown; the message lists those that exist.
        QueryError
            A predicate is wrong.
        InvalidInputError
            The rows are of an aligned axis.
        BudgetError
            The download would be larger than ``max_bytes``.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B"])
        >>> daf.add_axis("gene", ["CD8A", "MT-CO1", "MT-ND1"])
        >>> daf.set_matrix("cell", "gene", "UMIs", [[6, 1, 3], [8, 0, 0]])
        >>> totals = connect(daf).totals("cell", "gene", "UMIs", columns="name LIKE 'MT-%'")
        >>> totals.select("name", "sum", "nonzero", "mean", "share").to_pylist()
        [{'name': 'A', 'sum': 4.0, 'nonzero': 2, 'mean': 2.0, 'share': 0.4},
         {'name': 'B', 'sum': 0.0, 'nonzero': 0, 'mean': 0.0, 'share': 0.0}]
        """
        axes = rows_axis, columns_axis
        how = {"join": join, "along": along, "max_bytes": max_bytes}
        request = self._request(schema, params, axes, name, rows, columns, **how)
        prepared, requested = profiles.prepared_totals(request)
        with progress_bar("totals", None, show=progress) as bar:
            table = prepared.compute(bar.add)
        return engines.TableResult(self._engine, table, f"the totals of {name!r}", requested)

    def sampler(  # noqa: PLR0913 - what is chosen, and how it is split
        self,
        axis: str,
        *,
        where: slices.Selector = None,
        weights: str | None = None,
        split: training.Shares | None = None,
        seed: int = 0,
        stratify: training.Expressions | None = None,
        groups: training.Expressions | None = None,
        params: engines.Params | None = None,
        schema: str | None = None,
    ) -> training.Sampler:
        """Choose entries of an axis, with weights and splits, for a training loop.

        The same data and the same seed make the same sampler, in every format and with any number
        of threads: splits go by hashes of the names of the entries.  If ``where`` changes, nearly
        all entries keep their split, unless there are groups.

        Parameters
        ----------
        where
            Which entries; all by default.  As ``rows=`` of `matrix`: a SQL predicate, a SELECT,
            names, positions or a mask.  Each counts once.
        weights
            An expression of SQL, evaluated over the chosen entries alone, as its window functions
            are.  Divisions are those of real numbers.
        split
            The share of each split by its name; together 1.
        seed
            Another integer makes other splits.
        stratify
            A vector, an expression, or several: each split keeps its share of every combination
            of their values, to within one entry.  NULL is a value.  With groups, as near as these
            allow.
        groups
            A vector, an expression, or several, such as the donor: entries with the same values
            are in one split.  The sizes come as near to the shares as moving or swapping groups
            brings them.
        params
            Values for the parameters of all of these, as for `sql`.
        schema
            Which data set, where several are connected.

        Returns
        -------
        Sampler
            A frozen value with ``indices``, ``weights``, ``names`` and ``splits``.

        Raises
        ------
        InvalidInputError
            The shares do not add up; a weight is missing, negative or infinite; a split would be
            empty; an entry has no group; or nothing is chosen.
        QueryError, NotFoundError
            A predicate or an expression is wrong; an axis, entry or column is unknown.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C", "D"])
        >>> daf.set_vector("cell", "donor", ["N1", "N1", "N2", "N2"])
        >>> sampler = connect(daf).sampler("cell", split={"train": 0.5, "val": 0.5}, groups="donor")
        >>> sampler.sizes, sampler["val"].names.to_pylist()
        ({'train': 2, 'val': 2}, ['A', 'B'])
        """
        names = "where", "weights", "stratify", "groups"
        bound = _bound(params, [where], [weights, stratify, groups])
        chosen = dict(zip(names, bound, strict=True))
        return training.make_sampler(self._engine, schema, axis, split=split, seed=seed, **chosen)

    def load_sampler(
        self,
        path: str | Path,
        *,
        if_changed: training.IfChanged = "error",
        schema: str | None = None,
    ) -> training.Sampler:
        """Read a sampler that `Sampler.save` wrote, and compare it with the data.

        It is made again as it was asked for, which has to give the same entries at the same
        positions, the same weights and the same splits.

        Parameters
        ----------
        path
            A ``.parquet`` or ``.arrow`` file.
        if_changed
            ``keep`` takes entries, splits and weights as they were saved instead, and finds the
            entries by their names: so a split survives new entries, and another order.
        schema
            Which data set, where several are connected.

        Raises
        ------
        SourceNotFoundError
            There is no such file.
        InvalidInputError
            It is no file of a sampler; or the data would make another one today.
        EntryNotFoundError
            An entry is not there any more.
        CorruptDataError
            The file is damaged.

        Examples
        --------
        >>> import daf_storage, os, tempfile
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C", "D"])
        >>> db = connect(daf)
        >>> path = os.path.join(tempfile.mkdtemp(), "split.parquet")
        >>> db.sampler("cell", split={"train": 0.75, "val": 0.25}).save(path)
        >>> db.load_sampler(path)
        Sampler('cell', 4 of 4 entries: train 3, val 1)
        """
        return training.load_sampler(self._engine, schema, Path(path), if_changed)


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
        None
        if selection.is_all and isinstance(axis, layouts.ConcatenatedAxis)
        else {
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
        moments.schema_of(prepared.groups.columns, request.axes[1], moments.MARKER_STATISTICS),
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


def _bound(
    params: engines.Params | None, selectors: Sequence[Any], expressions: Sequence[Any]
) -> list[Any]:
    """Return both, with values in place of the parameters of those that are SQL.

    A list of a selector has names, which are no SQL, and one of expressions has SQL.
    """
    values = [*selectors, *expressions]
    listed = [[each] if isinstance(each, str) else [] for each in selectors]
    listed += map(_listed, expressions)
    strings = [string for each in listed for string in each]
    if params is None and not any(map(syntax.placeholders, strings)):
        return values
    replaced = iter(engines.bind_all(strings, params))
    bound = [[next(replaced) for _ in each] for each in listed]
    return [
        (new[0] if isinstance(value, str) else new) if new else value
        for value, new in zip(values, bound, strict=True)
    ]


def _listed(expressions: Any) -> list[str]:
    """Return expressions that are SQL, to have values put in place of their parameters."""
    if isinstance(expressions, str):
        return [expressions]
    if isinstance(expressions, list | tuple) and all(isinstance(e, str) for e in expressions):
        return list(expressions)
    return []
