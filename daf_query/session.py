"""Sessions: connect data sets, ask SQL questions, and choose slices of their matrices."""

from __future__ import annotations

import html
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from daf_query._derived_vector import derived
from daf_query._sources import Frame, Mode, Source, opened, schema_name
from daf_query.index import build_index, build_point_index
from daf_query.scan import DEFAULT_OPTIONS, ScanOptions
from daf_query.slice import MatrixSlice, Selector, order_of, resolve, slice_matrix
from daf_query.sql import (
    ENGINE,
    Allow,
    Collection,
    Connections,
    Engine,
    Explanation,
    Params,
    QueryPlan,
    QueryResult,
    SessionContext,
    bind,
    bind_all,
    query_result,
    reporting,
)
from daf_query.table import Categoricals, TableDataset
from daf_storage import DafReader, DafWriter, IfExists, ShowProgress, errors

CACHE_BYTES = 512 << 20
"""Default size of the decode cache of a session, in bytes."""


def connect(
    source: Source | Mapping[str, Source | Frame],
    *,
    mode: Mode = "r",
    cache_bytes: int = CACHE_BYTES,
    scan_options: ScanOptions = DEFAULT_OPTIONS,
    categoricals: Categoricals = "string",
) -> DafSession:
    """Open one data set or several for SQL.

    Parameters
    ----------
    source
        A path, a reader, or a mapping of schema names to either.  The schema of a path is its
        file name without suffixes: ``data/pbmc.daf.zarr`` is ``pbmc``.  A pattern of paths
        (``runs/*.daf.zarr``) or a list of data sets is one schema, ``runs``: its tables have the
        rows of all of them, and a column ``dataset`` with the name of each.  Any other Zarr
        directory or archive with a group ``meta`` is one table, ``meta`` (see `zarr_table`).
        In a mapping also tables of your own, see `DafSession.register`.
    mode
        ``r+`` opens paths so that `DafSession.save_vector` and `DafSession.reorder_axis` work.
    cache_bytes
        How much of what was decoded (strings, their codes, packed chunks) is remembered for later
        queries, about; the least recently used is forgotten first.
    scan_options
        How tables are cut, pruned and read; the defaults suit all sizes.
    categoricals
        ``dictionary`` shows categoricals that an AnnData import noted as Arrow dictionaries, which
        are ordered where the categorical was: ``Categorical`` in pandas, ``Enum`` in polars.

    Returns
    -------
    DafSession
        With one data set its tables are ``cell`` (and ``pbmc.cell``); with several they are
        ``pbmc.cell``, ``liver.cell`` and so on.

    Raises
    ------
    SourceNotFoundError
        There is nothing at a path, or a pattern matches nothing.

    Examples
    --------
    >>> import daf_storage
    >>> daf = daf_storage.MemoryDaf(name="tiny")
    >>> daf.add_axis("cell", ["TATA", "GATA"])
    >>> daf.set_vector("cell", "age", [30, 60])
    >>> connect(daf).sql("SELECT name FROM cell WHERE age > 40").to_pydict()
    {'name': ['GATA']}
    """
    if isinstance(source, Mapping):
        if not source:
            raise errors.InvalidInputError("connect() was given no data set")
        named = {name: opened(each, mode) for name, each in source.items()}
    else:
        connected = opened(source, mode)
        named = {schema_name(source, connected): connected}
    data_sets = {
        name: each for name, each in named.items() if isinstance(each, DafReader | Collection)
    }
    session = DafSession(
        data_sets, cache_bytes=cache_bytes, scan_options=scan_options, categoricals=categoricals
    )
    for name, connected in named.items():
        if name not in data_sets:
            session._connections.connect(name, connected)  # noqa: SLF001 - our own
    return session


class DafSession:
    """Data sets that are connected, each a SQL schema; `connect` makes one.

    May be used from several threads.  Closing it closes nothing that it handed out.
    """

    def __init__(
        self,
        data_sets: Mapping[str, DafReader | Collection],
        *,
        cache_bytes: int = CACHE_BYTES,
        scan_options: ScanOptions = DEFAULT_OPTIONS,
        categoricals: Categoricals = "string",
    ) -> None:
        self._engine = Engine(
            Connections(
                data_sets, cache_bytes, scan_options=scan_options, categoricals=categoricals
            )
        )

    @property
    def cached_bytes(self) -> int:
        """How much is remembered of what was decoded."""
        return self._connections.cache.nbytes

    def __repr__(self) -> str:
        return f"DafSession({', '.join(self._connections.schemas)})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the data sets; arrays and slices handed out earlier stay valid."""
        self._connections.close()

    @property
    def context(self) -> SessionContext:
        """The DataFusion session, for what this class does not offer.  It may write."""
        ENGINE.enter()
        return self._engine.context

    @property
    def schemas(self) -> dict[str, DafReader]:
        """The data sets by schema name; several that are asked as one are not among them."""
        return self._connections.readers()

    def reader(self, schema: str | None = None) -> DafReader:
        """Return the reader of a data set; with one connected, of that.

        Raises
        ------
        InvalidInputError
            There are several behind it, or several are connected and none was named.
        NotFoundError
            There is no such schema.
        """
        return self._connections.reader(self._connections.schema(schema).name)

    def tables(self) -> list[str]:
        """Return the names of the tables, as queries write them."""
        return self._connections.table_names

    def register(self, source: Source | Frame, name: str | None = None) -> None:
        """Connect another data set, as a schema, or a table of your own.

        Parameters
        ----------
        source
            A path or a reader of a data set; a pattern of paths or a list, for several as one
            (see `connect`); a path of a Zarr group or a table, such as `zarr_table` makes; a data
            frame of pandas or polars, a DuckDB relation, an Arrow table, dataset or stream; a
            Parquet, Arrow, CSV or TSV file (also ``.csv.gz``).
        name
            The schema or table name; by default that of the file, or of the table.  A frame
            needs one.

        Raises
        ------
        ExistsError
            Something is connected by this name, or an axis has it.
        SourceNotFoundError, CorruptDataError
            There is no such file, or it is not what its suffix says.

        Examples
        --------
        >>> import daf_storage
        >>> session = connect(daf_storage.MemoryDaf(name="one"))
        >>> other = daf_storage.MemoryDaf(name="two")
        >>> other.add_axis("donor", ["N1", "N2"])
        >>> session.register(other, "other")
        >>> session.sql("SELECT count(*) AS n FROM other.donor").to_pydict()
        {'n': [2]}

        >>> import pandas
        >>> session.register(pandas.DataFrame({"id": ["N1"], "centre": ["Basel"]}), "samples")
        >>> session.sql(
        ...     "SELECT name, centre FROM other.donor JOIN samples ON name = samples.id"
        ... ).to_pydict()
        {'name': ['N1'], 'centre': ['Basel']}
        """
        connected = opened(source)
        self._connections.connect(
            schema_name(source, connected) if name is None else name, connected
        )

    def unregister(self, name: str) -> None:
        """Let go of a data set or a table; what was opened for it is closed."""
        self._connections.disconnect(name)

    def sql(
        self, query: str, *, params: Params | None = None, allow: Allow = "read"
    ) -> QueryResult:
        """Plan a SQL query; rows are computed when the result is asked for them.

        Parameters
        ----------
        query
            One statement.  Tables are the axes and ``scalars``; identifiers keep their case.
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
            A column or table is unknown; the message says which there are.
        ReadOnlyError
            The query would change something.

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.set_vector("cell", "age", [1, 2, 3])
        >>> db = connect(daf)
        >>> db.sql("SELECT name FROM cell WHERE age > $least", params={"least": 2}).to_pydict()
        {'name': ['C']}
        """
        return query_result(self._engine, bind(query, params), allow=allow)

    def explain(self, query: str, *, params: Params | None = None) -> QueryPlan:
        """Plan a query and return the plan; nothing is executed.

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.set_vector("cell", "age", [1, 2, 3])
        >>> print(connect(daf).explain("SELECT name FROM cell WHERE age > 2").logical)
        TableScan: cell projection=[name], full_filters=[cell.age > Int64(2)]
        """
        return self.sql(query, params=params).explain()

    def explain_analyze(self, query: str, *, params: Params | None = None) -> Explanation:
        """Run a query and report what it cost: zones left out and read, values of each column.

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.set_vector("cell", "age", [1, 2, 3])
        >>> daf.set_vector("cell", "score", [0.1, 0.2, 0.3])
        >>> report = connect(daf).explain_analyze("SELECT score FROM cell WHERE age > 2")
        >>> report.rows, report.scans[0].values
        (1, {'age': 3, 'score': 1})
        """
        with reporting() as reports:
            started = time.perf_counter()
            result = self.sql(query, params=params)
            rows = sum(batch.num_rows for batch in result.collect())
            seconds = time.perf_counter() - started
            plan = result.explain().physical
            scans = tuple(report for report in reports if report.read)
        hits = sum(report.cache_hits for report in reports)
        return Explanation(query, seconds, rows, scans, hits, plan)

    def table(self, axis: str, *, schema: str | None = None) -> TableDataset:
        """Return the table of an axis as a pyarrow Dataset, for DuckDB, polars and pyarrow.

        Parameters
        ----------
        schema
            Which data set, where several are connected.
        """
        tables = self._connections.schema(schema)
        if axis not in tables.axes_set():
            raise errors.axis_not_found(tables.location, axis, tables.axes_set())
        return tables.dataset(axis)

    def matrix(
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        rows: Selector = None,
        columns: Selector = None,
        params: Params | None = None,
        schema: str | None = None,
    ) -> MatrixSlice:
        """Choose a slice of a matrix; its values are read when they are asked for.

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
        schema
            Which data set, where several are connected.

        Returns
        -------
        MatrixSlice
            With ``to_scipy``, ``to_numpy``, ``to_pandas``, ``to_polars``, ``to_arrow``,
            ``to_anndata`` and ``save``.  A filter that matches nothing yields an empty slice.

        Raises
        ------
        NotFoundError
            An axis, matrix, column or entry is unknown; the message says which there are.
        QueryError
            A predicate is wrong.

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["TATA", "GATA"])
        >>> daf.add_axis("gene", ["FOXA1", "WNT6"])
        >>> daf.set_matrix("cell", "gene", "UMIs", [[0, 1], [2, 3]])
        >>> part = connect(daf).matrix("cell", "gene", "UMIs", rows="name = 'GATA'")
        >>> part.to_numpy().tolist()
        [[2, 3]]
        """
        schema_name = self._connections.schema(schema).name
        daf = self.reader(schema_name)
        for axis in (rows_axis, columns_axis):
            if not daf.has_axis(axis):
                raise errors.axis_not_found(daf.location, axis, daf.axes_set())
        if not daf.has_matrix(rows_axis, columns_axis, name):
            known = daf.matrices_set(rows_axis, columns_axis)
            raise errors.matrix_not_found(daf.location, rows_axis, columns_axis, name, known)
        other = {rows_axis: columns_axis, columns_axis: rows_axis}
        rows, columns = _bound(rows, columns, params)
        chosen = [
            resolve(self._engine, schema_name, axis, selector, keyword=keyword, other=other[axis])
            for axis, selector, keyword in (
                (rows_axis, rows, "rows"),
                (columns_axis, columns, "columns"),
            )
        ]
        return slice_matrix(daf, rows_axis, columns_axis, name, chosen[0], chosen[1])

    def reorder_axis(
        self,
        axis: str,
        by: str,
        *,
        schema: str | None = None,
        progress: ShowProgress = "auto",
    ) -> None:
        """Put the entries of an axis into an SQL order; its vectors and matrices follow.

        See `daf_storage.DafWriter.reorder_axis`, which takes a list.

        Parameters
        ----------
        by
            What comes after ``ORDER BY``: ``"type, age DESC"``; entries that are equal keep their
            order.  Or a whole SELECT that yields each ``name`` or ``index`` of the axis once.
        schema
            Which data set, where several are connected.
        progress
            Whether to show a bar on stderr.

        Raises
        ------
        ReadOnlyError
            The data set was opened for reading.
        QueryError, VectorNotFoundError
            The order is wrong.

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.set_vector("cell", "age", [1, 3, 2])
        >>> connect(daf).reorder_axis("cell", "age DESC")
        >>> daf.axis_entries("cell").tolist()
        ['B', 'C', 'A']
        """
        schema_name, daf = self._writable(schema, axis)
        daf.reorder_axis(axis, order_of(self._engine, schema_name, axis, by), progress=progress)

    def save_vector(
        self,
        axis: str,
        name: str,
        query: str,
        *,
        params: Params | None = None,
        if_exists: IfExists = "error",
        schema: str | None = None,
    ) -> None:
        """Store what a query says of each entry of an axis as a vector.

        Parameters
        ----------
        query
            An SQL expression of the columns of the axis (``"n_genes > 1500"``); or a whole SELECT
            that yields ``name`` or ``index`` and one other column, for each entry once.
        params
            Values for the parameters of the query, as for `sql`.
        if_exists
            What becomes of a vector of this name: ``"error"`` leaves it, ``"replace"`` replaces it.
        schema
            Which data set, where several are connected.

        Raises
        ------
        ReadOnlyError
            The data set was opened for reading.
        QueryError
            The query is wrong, lacks entries, or has some twice; or a value is missing that is
            neither a float nor a string.
        ExistsError
            There is such a vector.

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.set_vector("cell", "age", [1, 3, 2])
        >>> connect(daf).save_vector("cell", "is_old", "age > 1")
        >>> daf.get_np_vector("cell", "is_old").tolist()
        [False, True, True]
        """
        schema_name, daf = self._writable(schema, axis)
        if daf.has_vector(axis, name) and if_exists == "error":
            raise errors.property_exists(
                daf.location, f"vector {name!r} of axis {axis!r}", is_append_only=daf.is_append_only
            )
        values = derived(self._engine, schema_name, axis, bind(query, params))
        has_missing = values.null_count > 0
        values = values.fill_null("") if has_missing else values
        daf.set_vector(axis, name, values, if_exists=if_exists, empty_is_missing=has_missing)

    def build_index(
        self,
        axis: str,
        names: str | Sequence[str] | None = None,
        *,
        schema: str | None = None,
        progress: ShowProgress = "auto",
    ) -> list[str]:
        """Store indexes with which rows are found by value at once; return which vectors have one.

        A query uses one by itself.  What is written later makes an index stale, which is noticed,
        and it is not used.

        Parameters
        ----------
        names
            Vectors, ``name`` for the entries; by default the entries, and vectors of strings with
            many different values.
        schema
            Which data set, where several are connected.
        progress
            Whether to show a bar on stderr.

        Raises
        ------
        ReadOnlyError
            The data set was opened for reading.
        NotFoundError
            There is no such axis or vector.

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.set_vector("cell", "age", [1, 3, 2])
        >>> connect(daf).build_index("cell", "age")
        ['age']
        """
        _, daf = self._writable(schema, axis)
        return build_index(daf, axis, names, progress=progress)

    def build_point_index(self, axis: str, x: str, y: str, *, schema: str | None = None) -> int:
        """Store an index over two vectors of coordinates; return how many entries it has.

        It is used for boxes and for polygons.

        Parameters
        ----------
        x, y
            Two vectors of numbers.
        schema
            Which data set, where several are connected.

        Raises
        ------
        ReadOnlyError
            The data set was opened for reading.
        VectorNotFoundError
            There is no such vector.
        """
        _, daf = self._writable(schema, axis)
        return build_point_index(daf, axis, x, y)

    def _writable(self, schema: str | None, axis: str) -> tuple[str, DafWriter]:
        """Return the name of a schema, and its data set, which has an axis and can be changed."""
        name = self._connections.schema(schema).name
        daf = self._connections.reader(name)
        if not daf.has_axis(axis):
            raise errors.axis_not_found(daf.location, axis, daf.axes_set())
        if not isinstance(daf, DafWriter):
            raise errors.ReadOnlyError(
                f"{daf.location}: it was opened for reading; open it with mode 'r+' to change it"
            )
        return name, daf

    @property
    def _connections(self) -> Connections:
        return self._engine.connections

    def _repr_html_(self) -> str:
        parts = (
            f"<h4>{html.escape(name)}</h4>{daf._repr_html_()}" for name, daf in self.schemas.items()
        )
        return "".join(parts)


def _bound(rows: Selector, columns: Selector, params: Params | None) -> tuple[Selector, Selector]:
    """Return selectors of which those that are SQL have values in place of their parameters."""
    written = [selector if isinstance(selector, str) else "" for selector in (rows, columns)]
    bound = bind_all(written, params)
    return (
        bound[0] if isinstance(rows, str) else rows,
        bound[1] if isinstance(columns, str) else columns,
    )
