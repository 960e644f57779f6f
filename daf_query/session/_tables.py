"""The tables of a session: those for other engines, and views whose entries SQL chooses."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from daf_query.dataframes import scan_polars
from daf_query.session._connected import Connected
from daf_query.slice import Selector, chosen_positions
from daf_query.sql import Engine, Params, bind_all
from daf_query.table import TableDataset, with_matrix_columns
from daf_storage import DafReader, errors
from daf_storage import view as daf_view

if TYPE_CHECKING:
    import polars as pl


ViewAxes: TypeAlias = Mapping[str, Any] | Sequence[tuple[str, Any]]
"""By its name in the view: which axis of the base it is, and which of its entries."""

ViewData: TypeAlias = Mapping[Any, str | None] | Sequence[tuple[Any, str | None]]
"""By its name in the view, a string or a tuple: what each scalar, vector and matrix is."""

_ANY: Final = "*"
_SAME: Final = "="


class Tables(Connected):
    """What a session hands to other engines."""

    def table(
        self,
        axis: str,
        *,
        schema: str | None = None,
        matrix_columns: Mapping[str, tuple[str, str, str]] | None = None,
        columns: Collection[str] | None = None,
    ) -> TableDataset:
        """Return the table of an axis as a pyarrow Dataset, for DuckDB, polars and pyarrow.

        Parameters
        ----------
        schema
            Which data set, where several are connected.
        matrix_columns
            More columns, by name: the other axis of a matrix, its name, and an entry of that axis,
            such as ``("gene", "X", "CD8A")``.  Of several data sets as one, it is NULL for those
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
        tables = self._connections.schema(schema)
        if not tables.has_axis(axis):
            raise errors.axis_not_found(tables.location, axis, tables.axes_set())
        found = tables.dataset(axis, None if columns is None else frozenset(columns))
        return with_matrix_columns(found, matrix_columns or {})

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
        frame: pl.LazyFrame = scan_polars(table)
        return frame

    def view(
        self,
        axes: ViewAxes | None = None,
        data: ViewData | None = None,
        *,
        params: Params | None = None,
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
        return self._over({name: view_of(self._engine, name, axes, data, params)})


def view_of(
    engine: Engine,
    schema: str,
    axes: ViewAxes | None,
    data: ViewData | None,
    params: Params | None,
) -> DafReader:
    """Return a view of a data set; see `DafSession.view`."""
    daf = engine.connections.reader(schema)
    if axes is None:
        return daf_view(daf, None, data)
    pairs = list(axes.items()) if isinstance(axes, Mapping) else list(axes)
    chosen = [_chosen(daf, name, value) for name, value in pairs]
    written = [entries if isinstance(entries, str) else "" for _, entries in chosen]
    bound = bind_all(written, params)
    resolved: list[tuple[str, Any]] = []
    tables = engine.connections.schemas[schema]
    for (name, value), (base, entries), sql in zip(pairs, chosen, bound, strict=True):
        if base is None or entries is None:
            resolved.append((name, value))
            continue
        selector = sql if isinstance(entries, str) else entries
        chosen_entries = chosen_positions(
            engine, tables, base, selector, keyword="axes", other="axes"
        )
        resolved.append((name, (base, chosen_entries)))
    return daf_view(daf, dict(resolved) if isinstance(axes, Mapping) else resolved, data)


def _chosen(daf: DafReader, name: str, value: Any) -> tuple[str | None, Selector]:
    """Return the axis of the base, and which of its entries are asked for; None for all of them."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
        return value
    if value is None or name == _ANY:
        return None, None
    if isinstance(value, str) and (value == _SAME or daf.has_axis(value)):
        return None, None
    return name, value
