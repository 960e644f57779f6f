"""The rows of the table of an axis: values of SQL in their order, and positions that are chosen."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from daf_query.matrix import ConcatenatedAxis, one_array
from daf_query.scan import INDEX, NAME
from daf_query.slice._selector import Chooser, Positions, Selector
from daf_query.sql import AxisSchema, Engine
from daf_query.syntax import Edit, WrappedSql, quoted_name
from daf_query.table import DATASET, VALUE, UserTable
from daf_storage import DafReader, errors
from daf_storage.anndata import recorded_types

_COLOUR: Final = "color"
_CHOSEN: Final = ("chosen_dataset", "chosen_index")


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
        tables = engine.connections.schema(schema)
        if not tables.has_axis(axis):
            raise errors.axis_not_found(tables.location, axis, tables.axes_set())
        return cls(engine, tables, axis)

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
        """Return the name of each row, as large strings."""
        readers = self.readers
        names = [daf.get_pa_vector(self.axis, NAME).cast(pa.large_string()) for daf in readers]
        whole = pa.concat_arrays(names)
        return whole if self.some is None else whole.take(pa.array(self.some))

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
        """Return the value of an expression for each row, in their order.

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
        keys = (DATASET, INDEX) if self.tables.is_collection else (INDEX,)
        with self._join(keys) as join:
            # Not an injection: it is read-only, one statement, and the expression SQL by design.
            start, end = (
                f"SELECT {', '.join(map(quoted_name, keys))}, (\n",
                f"\n) AS {VALUE} FROM {self.table} {join}",
            )
            found = self.engine.rows_of(WrappedSql.between(start, text, end, edits), "expression")
        positions = found.column(INDEX).to_numpy().astype(np.int64)
        if self.tables.is_collection:
            positions = self.whole.joined(found.column(DATASET).combine_chunks(), positions)
        wanted = np.arange(self.whole.length) if self.some is None else self.some
        order = np.argsort(positions, kind="stable")
        if not np.array_equal(positions[order], wanted):
            raise errors.QueryError(
                f"the expression has {positions.size:,} values, and axis {self.axis!r} has "
                f"{wanted.size:,} entries; it needs one for each"
            )
        values = found.column(VALUE)
        if pa.types.is_dictionary(values.type):
            values = values.unify_dictionaries()
        return one_array(values.take(pa.array(order)))

    @contextmanager
    def _join(self, keys: tuple[str, ...]) -> Iterator[str]:
        """Connect the positions of some rows as a table, and return what joins the axis with it."""
        if self.some is None or self.some.size == self.whole.length:
            yield ""
            return
        name = f"chosen_{secrets.token_hex(8)}"
        owners, within = self.whole.split(self.some)
        datasets = pa.array(self.whole.names, pa.string()).take(pa.array(owners))
        rows = pa.table([datasets, pa.array(within)], names=list(_CHOSEN))
        pairs = ((key, f"chosen_{key}") for key in keys)
        equal = (f"{self.table}.{quoted_name(key)} = {name}.{chosen}" for key, chosen in pairs)
        connections = self.engine.connections
        connections.connect(name, UserTable(rows, "the chosen entries"))
        try:
            yield f"LEFT SEMI JOIN {name} ON {' AND '.join(equal)}"
        finally:
            connections.disconnect(name)
