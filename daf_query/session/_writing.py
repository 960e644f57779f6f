"""The part of a session that writes: vectors, axes, matrices, orders, indexes and sidecars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import daf_storage
from daf_query.scan import INDEX, NAME
from daf_query.session._later import engines, indexing, moments, profiles, slices, stored, syntax
from daf_query.session._queries import Queries
from daf_query.table import is_user_table
from daf_storage import DafWriter, IfExists, ShowProgress, errors

Frame: TypeAlias = Any
"""A table that a user brings: of pandas, polars, DuckDB, Arrow or whatever hands out Arrow."""


class Writing(Queries):
    """The part of a session that writes."""

    def reorder_axis(
        self,
        axis: str,
        by: slices.Selector,
        *,
        schema: str | None = None,
        progress: ShowProgress = "auto",
    ) -> None:
        """Put the entries of an axis into another order; its vectors and matrices follow.

        Parameters
        ----------
        by
            What comes after ``ORDER BY``: ``"type, age DESC"``; entries that are equal keep their
            order.  Or a whole SELECT that yields each ``name`` or ``index`` of the axis once, or
            all names or positions in their new order.
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
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.set_vector("cell", "age", [1, 3, 2])
        >>> connect(daf).reorder_axis("cell", "age DESC")
        >>> daf.axis_entries("cell").tolist()
        ['B', 'C', 'A']
        >>> connect(daf).reorder_axis("cell", ["A", "C", "B"])
        >>> daf.axis_entries("cell").tolist()
        ['A', 'C', 'B']
        """
        schema_name, daf = self._writable(schema, axis)
        if isinstance(by, str):
            if not by.strip():
                raise errors.QueryError("the order is empty; write what comes after ORDER BY")
            by = by if syntax.is_select(by) else f"ORDER BY {by}"
        order = slices.AxisRows.of(self._engine, schema_name, axis).chosen(by, "by")
        daf.reorder_axis(axis, order, progress=progress)

    def save_vector(
        self,
        axis: str,
        name: str,
        query: str,
        *,
        params: engines.Params | None = None,
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
        InvalidInputError
            The query is no string, or the name is reserved.
        ExistsError
            There is such a vector.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.set_vector("cell", "age", [1, 3, 2])
        >>> connect(daf).save_vector("cell", "is_old", "age > 1")
        >>> daf.get_np_vector("cell", "is_old").tolist()
        [False, True, True]
        """
        schema_name, daf = self._writable(schema, axis)
        if not isinstance(query, str):
            raise errors.InvalidInputError(
                f"save_vector() takes SQL, not {type(query).__name__}; values of your own are "
                "stored with set_vector() of the data set"
            )
        what, exists = f"vector {name!r} of axis {axis!r}", daf.has_vector(axis, name)
        is_own = name in (NAME, INDEX)  # which `set_vector` refuses
        stored.refuse_existing(daf, what, exists=exists and not is_own, if_exists=if_exists)
        values = stored.derived_vector(self._engine, schema_name, axis, engines.bind(query, params))
        stored.set_vector(daf, axis, name, values, if_exists=if_exists)

    def annotate(  # noqa: PLR0913 - how a table is read
        self,
        axis: str,
        rows: str | Path | engines.QueryResult | Frame,
        *,
        key: str | None = None,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        fill: Mapping[str, Any] | None = None,
        strict: bool = False,
        params: engines.Params | None = None,
        if_exists: IfExists = "error",
        schema: str | None = None,
    ) -> stored.Annotation:
        """Store columns of a table as vectors; its rows belong to the entries that a key names.

        Entries without a row have no value: an empty string that counts as missing, or NaN. So
        whole numbers become floats where one is missing.  Dates are stored as strings.  Strings
        that were categorical are so again in an AnnData, with their categories in order; an archive
        notes that of the first table alone, since nothing in it is replaced.

        Parameters
        ----------
        rows
            A file (CSV, TSV, Parquet, Arrow), a data frame, a SELECT, or the result of one; a row
            for an entry, in any order.
        key
            The column that has the entries; by default ``name``, else the index of a DataFrame of
            pandas that was written to a Parquet file, if that holds strings.
        columns
            Which columns, or a mapping of vectors to columns; by default all but the key.
        fill
            Values for entries without one, by vector.
        strict
            Whether a key that is no entry is an error; by default such rows are counted.
        params
            Values for the parameters of the query, as for `sql`.
        if_exists
            What becomes of a vector of this name: ``"error"`` leaves it, ``"replace"`` replaces it.
        schema
            Which data set, where several are connected.

        Returns
        -------
        Annotation
            What was stored, how many entries have a row, and how many keys are no entries.

        Raises
        ------
        EntryNotFoundError
            No key is an entry; or, with ``strict``, one is not.
        DuplicateEntriesError
            An entry has several rows.
        InvalidInputError
            There is no such column; or a Bool has no value for an entry, and there is no ``fill``.
        ExistsError, ReadOnlyError
            There is such a vector; or the data set was opened for reading.

        Examples
        --------
        >>> import daf_storage, pyarrow
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> labels = pyarrow.table({"barcode": ["C", "A", "X"], "label": ["t", "b", "t"]})
        >>> print(connect(daf).annotate("cell", labels, key="barcode"))
        label (String): 2 of 3 entries of cell have a row; 1 key is no entry of cell: 'X'
        >>> daf.get_np_vector("cell", "label").tolist()
        ['b', '', 't']
        """
        _, daf = self._writable(schema, axis)
        keys = (NAME if key is None else key,)
        table = stored.rows_of(self._engine, rows, params, strings=keys)
        return stored.annotate(
            daf, axis, table, key, columns, fill or {}, is_strict=strict, if_exists=if_exists
        )

    def save_axis(
        self,
        axis: str,
        rows: str | engines.QueryResult | Frame,
        *,
        name: str = "name",
        params: engines.Params | None = None,
        if_exists: IfExists = "error",
        schema: str | None = None,
    ) -> None:
        """Store the rows of a query as a new axis, with its vectors, in one step.

        Parameters
        ----------
        rows
            A SELECT with a row for each entry of the new axis, in their order (write ORDER BY); the
            result of one; or a data frame.  Each column but that of the names becomes a vector.
        name
            The column of the entries' names, which are strings.
        params
            Values for the parameters of the query, as for `sql`.
        if_exists
            What becomes of an axis of this name: ``"error"`` leaves it; ``"replace"`` replaces it,
            with all its vectors and all matrices over it.
        schema
            Which data set, where several are connected.

        Raises
        ------
        ReadOnlyError
            The data set was opened for reading.
        QueryError
            The query is wrong, lacks the column of the names, or yields NULL for one; or a value is
            missing that is neither a float (NaN then) nor a string.
        DuplicateEntriesError
            Two rows have the same name.
        ExistsError
            There is such an axis.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.set_vector("cell", "type", ["T", "B", "T"])
        >>> db = connect(daf)
        >>> query = "SELECT type AS name, count(*) AS cells FROM cell GROUP BY type ORDER BY name"
        >>> db.save_axis("type", query)
        >>> db.sql("SELECT name, cells FROM type").to_pydict()
        {'name': ['B', 'T'], 'cells': [1, 2]}
        """
        _, daf = self._writable(schema)
        exists = daf.has_axis(axis)
        stored.refuse_existing(daf, f"axis {axis!r}", exists=exists, if_exists=if_exists)
        table = stored.rows_of(self._engine, rows, params)
        stored.add_derived_axis(daf, axis, table, name=name, if_exists=if_exists)

    def save_matrix(  # noqa: PLR0913 - the choices of a layout
        self,
        values: slices.MatrixSlice | profiles.Profile | str | engines.QueryResult | Any,
        rows_axis: str | None = None,
        columns_axis: str | None = None,
        name: str | None = None,
        *,
        statistic: moments.Statistic = "mean",
        fill: Any = None,
        relayout: bool = True,
        params: engines.Params | None = None,
        if_exists: IfExists = "error",
        schema: str | None = None,
    ) -> None:
        """Store a slice, a profile, an array, or the rows of a query as a matrix.

        Parameters
        ----------
        values
            A slice, of this data set or of another one: its elements are stored for the entries of
            its rows and columns.  A profile: a row for each group, named as the group (values of
            several group columns are joined with ``_``).  A SELECT, its result, or an Arrow or
            polars table, with a row for each element: an entry of either axis, in columns named
            after the axes (``AXIS`` and ``AXIS_2`` for an axis with itself), and a value.  Or a
            numpy or scipy array or a pandas DataFrame of all entries, as for
            `daf_storage.DafWriter.set_matrix`.
        rows_axis, columns_axis, name
            The axes and the name of the new matrix; for a slice, by default its own.  For a
            profile, the axis of rows is by default called as its only group column.  If there is no
            such axis, it is made first, with a vector ``count`` and, unless they are one column of
            strings, the group columns; the name is by default ``mean_UMIs``.
        statistic
            For a profile: the statistic that is stored, as in `Profile.to_anndata`.
        fill
            The value of all elements that are not given.  A slice of a sparse matrix and rows
            without ``fill`` become a sparse matrix, where they are zero; a dense one has to cover
            both axes, or needs ``fill``.
        relayout
            Whether to store the transpose too, as of `daf_storage.DafWriter.set_matrix`.
        params
            Values for the parameters of the query, as for `sql`.
        if_exists
            What becomes of a matrix of this name: ``"error"`` leaves it, ``"replace"`` replaces it.
        schema
            Which data set, where several are connected.

        Raises
        ------
        ReadOnlyError
            The data set was opened for reading.
        EntryNotFoundError
            An entry is not on the axis.
        QueryError
            The query is wrong, or has two rows for one element.
        InvalidInputError
            A dense matrix is not covered, and there is no ``fill``; or a string is no SELECT.
        ExistsError
            There is such a matrix.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.add_axis("gene", ["x", "y"])
        >>> daf.set_matrix("cell", "gene", "UMIs", [[0, 1], [2, 3], [4, 5]])
        >>> db = connect(daf)
        >>> part = db.matrix("cell", "gene", "UMIs", rows=["C", "A"])
        >>> db.save_matrix(part, name="some", fill=-1)
        >>> daf.get_np_matrix("cell", "gene", "some").tolist()
        [[0, 1], [-1, -1], [4, 5]]
        """
        if isinstance(values, str) and not syntax.is_select(values):
            raise errors.InvalidInputError(
                f"save_matrix() takes what to store first, and {values!r} is no SELECT; write "
                "save_matrix(values, rows_axis, columns_axis, name)"
            )
        own = stored.own_axes(values)
        rows_axis, columns_axis = rows_axis or own[0], columns_axis or own[1]
        if name is None and isinstance(values, slices.MatrixSlice):
            name = values.name
        if name is None and isinstance(values, profiles.Profile):
            name = f"{statistic}_{values.content.name}"
        if rows_axis is None or columns_axis is None or name is None:
            raise errors.InvalidInputError(
                f"the matrix needs rows_axis= and columns_axis={'' if name else ' and name='}, "
                "but for a slice, and for a profile with one group column"
            )
        _, daf = self._writable(schema, columns_axis)
        place = stored.Place(daf, (rows_axis, columns_axis), name, fill)
        is_new = isinstance(values, profiles.Profile) and not daf.has_axis(rows_axis)
        self._writable(schema, *([] if is_new else [rows_axis]))
        exists = not is_new and daf.has_matrix(rows_axis, columns_axis, name)
        stored.refuse_existing(daf, place.what, exists=exists, if_exists=if_exists)
        groups: Any = values
        if isinstance(values, profiles.Profile):
            values = _matrix_of_groups(daf, place, values, statistic)
        elif isinstance(values, slices.MatrixSlice):
            values = stored.matrix_of_slice(place, values)
        elif _is_rows(values):
            values = stored.matrix_of_rows(place, stored.rows_of(self._engine, values, params))
        elif fill is not None:
            raise errors.InvalidInputError(
                "fill= is for slices and queries; an array has all elements of the matrix"
            )
        how: Any = {"if_exists": if_exists, "relayout": relayout}
        with daf.batch():
            if is_new:
                vectors = stored.group_vectors(groups)
                daf.add_axis(rows_axis, stored.group_names(groups), vectors=vectors)
            daf.set_matrix(rows_axis, columns_axis, name, values, **how)

    def build_index(
        self,
        axis: str,
        names: str | Sequence[str] | None = None,
        *,
        schema: str | None = None,
        progress: ShowProgress = "auto",
    ) -> list[str]:
        """Store indexes that find rows by value at once; return which vectors have one.

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
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.set_vector("cell", "age", [1, 3, 2])
        >>> connect(daf).build_index("cell", "age")
        ['age']
        """
        _, daf = self._writable(schema, axis)
        return indexing.build_index(daf, axis, names, progress=progress)

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
        return indexing.build_point_index(daf, axis, x, y)

    def accelerate(
        self,
        matrices: str | Sequence[str] = (),
        *,
        indexes: Mapping[str, Sequence[str] | None] | None = None,
        path: str | Path | None = None,
        max_bytes: slices.ByteSize | None = None,
        schema: str | None = None,
        progress: ShowProgress = "auto",
    ) -> daf_storage.SidecarStatus:
        """Write a sidecar beside an AnnData that is read in place; what it has is used at once.

        It has the layout of each matrix that the file lacks, so that one gene is no longer a pass
        over a file that is stored by cells; columns that take long to decode; and indexes.  It is
        used whenever the file is opened, as long as that is unchanged.

        Parameters
        ----------
        matrices
            Names of matrices of two axes.
        indexes
            Vectors whose rows are to be found by value, by axis: ``{"obs": ["barcode"]}``;
            None for the entries, and for vectors of strings with many different values.
        path
            Where to write it, a name that ends in ``.daf.zarr``; by default beside the file.
            ``open_daf(file, sidecar=path)`` finds one elsewhere.
        max_bytes
            How large it may become.
        schema
            Which data set, where several are connected.
        progress
            Whether to show a bar on stderr.

        Returns
        -------
        SidecarStatus
            What the sidecar has.

        Raises
        ------
        InvalidInputError
            The data set is not one that is read in place.
        NotFoundError
            There is no such matrix, axis or vector.
        BudgetError
            It would be larger than ``max_bytes``.

        Examples
        --------
        >>> import tempfile, anndata, numpy as np, scipy.sparse as sp
        >>> from daf_query import connect
        >>> path = f"{tempfile.mkdtemp()}/atlas.h5ad"
        >>> anndata.AnnData(sp.csr_matrix(np.eye(3, dtype="f4"))).write_h5ad(path)
        >>> db = connect(path)
        >>> db.accelerate("X").properties
        ('axes/obs', 'axes/var', 'matrices/obs/var/X')
        >>> db.remove_sidecar()
        True
        """
        daf = self._connections.reader(schema)
        return indexing.accelerated(
            daf,
            matrices,
            indexes=indexes,
            path=None if path is None else str(path),
            max_bytes=None if max_bytes is None else slices.byte_count(max_bytes),
            progress=progress,
        )

    def remove_sidecar(self, *, schema: str | None = None) -> bool:
        """Delete the sidecar of a data set; return whether there was one.

        Parameters
        ----------
        schema
            Which data set, where several are connected.

        Raises
        ------
        InvalidInputError
            The data set is not one that is read in place.
        """
        return daf_storage.remove_sidecar(self._connections.reader(schema))


def _is_rows(values: object) -> bool:
    """Return whether values are a query or a table, which names what its rows are about.

    A DataFrame of pandas is not: it has labels, and is a matrix by itself.
    """
    is_matrix = hasattr(values, "iloc") or hasattr(values, "dtype") or hasattr(values, "type")
    return isinstance(values, str) or (is_user_table(values) and not is_matrix)


def _matrix_of_groups(
    daf: DafWriter, place: stored.Place, profile: profiles.Profile, statistic: moments.Statistic
) -> Any:
    """Return a statistic of each group for all columns of the axis.

    Where there is an axis of the groups, the rows are its entries.
    """
    names, values = stored.group_names(profile), profile.statistic(statistic)
    rows_axis, columns_axis = place.axes
    entries = profile.content.entries.dictionary_decode()
    columns = daf.axis_indices(columns_axis, entries)
    rows = np.arange(len(names))
    shape = len(names), daf.axis_length(columns_axis)
    if daf.has_axis(rows_axis):
        rows, shape = daf.axis_indices(rows_axis, names), place.shape
    return place.placed(shape, values, rows, columns)
