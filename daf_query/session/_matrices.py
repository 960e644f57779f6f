"""Questions about matrices: the slices that a session makes."""

from __future__ import annotations

from daf_query.matrix import Selection
from daf_query.session._connected import Connected
from daf_query.slice import MatrixSlice, Selector, resolve, slice_matrix
from daf_query.sql import Params, bind_all
from daf_query.table import TableDataset
from daf_storage import errors


class MatrixQuestions(Connected):
    """The part of a session that is about matrices."""

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
        >>> from daf_query import connect
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
        chosen = self._chosen(schema_name, (rows_axis, columns_axis), (rows, columns), params)
        return slice_matrix(daf, rows_axis, columns_axis, name, chosen[0], chosen[1])

    def matrix_table(
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        rows: Selector = None,
        columns: Selector = None,
        params: Params | None = None,
        schema: str | None = None,
    ) -> TableDataset:
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
            An axis, matrix, column or entry is unknown; the message says which there are.
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
        tables = self._connections.schema(schema)
        axes = (rows_axis, columns_axis)
        table = tables.matrix_table(*axes, name)  # before selectors: it knows the axes
        if rows is None and columns is None:
            return table
        chosen = self._chosen(tables.name, axes, (rows, columns), params)
        return tables.matrix_table(*axes, name, rows=chosen[0], columns=chosen[1])

    def _chosen(
        self,
        schema: str,
        axes: tuple[str, str],
        selectors: tuple[Selector, Selector],
        params: Params | None,
    ) -> list[Selection]:
        """Return the entries of two axes that ``rows=`` and ``columns=`` choose."""
        other = {axes[0]: axes[1], axes[1]: axes[0]}
        return [
            resolve(self._engine, schema, axis, selector, keyword=keyword, other=other[axis])
            for axis, selector, keyword in zip(
                axes, _bound(*selectors, params), ("rows", "columns"), strict=True
            )
        ]


def _bound(rows: Selector, columns: Selector, params: Params | None) -> tuple[Selector, Selector]:
    """Return selectors of which those that are SQL have values in place of their parameters."""
    written = [selector if isinstance(selector, str) else "" for selector in (rows, columns)]
    bound = bind_all(written, params)
    return (
        bound[0] if isinstance(rows, str) else rows,
        bound[1] if isinstance(columns, str) else columns,
    )
