"""The part of a session that writes into a data set: vectors, orders and indexes."""

from __future__ import annotations

from collections.abc import Sequence

from daf_query.index import build_index, build_point_index
from daf_query.session._connected import Connected
from daf_query.session._derived_vector import derived
from daf_query.slice import order_of
from daf_query.sql import Params, bind
from daf_storage import IfExists, ShowProgress, errors


class AxisWriting(Connected):
    """The part of a session that writes."""

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
        >>> from daf_query import connect
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
        >>> from daf_query import connect
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
        >>> from daf_query import connect
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
