"""The values of SQL expressions for the chosen entries of an axis: weights, strata and groups."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.matrix import ConcatenatedAxis
from daf_query.scan import INDEX, NAME
from daf_query.slice import expression_table
from daf_query.sql import Engine, written_items
from daf_query.syntax import Edit, list_items, quoted_name, real_divisions
from daf_query.table import DATASET, UserTable
from daf_query.training._splits import Codes, Keys, name_keys
from daf_storage import errors

Positions = npt.NDArray[np.int64]

_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_CHOSEN: Final = ("chosen_dataset", "chosen_index")


@dataclass(frozen=True)
class ChosenEntries:
    """Entries of an axis for which expressions are evaluated, as the rows of a query."""

    engine: Engine
    schema: str
    """What queries call the data set, or several as one."""
    axis: ConcatenatedAxis
    """Of one data set, or of several."""
    is_collection: bool
    positions: Positions
    """Ascending, each once."""

    def values(self, text: str, keyword: str, edits: tuple[Edit, ...] = ()) -> pa.Array:
        """Return the value of an expression for each entry, in their order.

        Window functions see the chosen entries and no others.

        Raises
        ------
        QueryError, VectorNotFoundError
            The expression is wrong.
        """
        try:
            with self._join() as join:
                table = expression_table(
                    self.engine, self.schema, self.axis.axis, text, join=join, edits=edits
                )
        except errors.DafError as error:
            raise errors.with_message(error, f"{keyword}=: {error}") from None
        positions = table.column(0).to_numpy().astype(np.int64)
        order = np.argsort(positions, kind="stable")
        if not np.array_equal(positions[order], self.positions):
            raise errors.InvalidInputError(
                f"{self.axis.location}: axis {self.axis.axis!r} was changed while {keyword}= was "
                "evaluated; make the sampler again"
            )
        values = table.column(1).take(pa.array(order)).combine_chunks()
        return pa.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) else values

    @contextmanager
    def _join(self) -> Iterator[str]:
        """Connect the chosen entries as a table, and return what joins the axis with it."""
        if self.positions.size == self.axis.length:
            yield ""
            return
        name = f"chosen_{secrets.token_hex(8)}"
        connections = self.engine.connections
        connections.connect(name, UserTable(self._chosen_table(), "the chosen entries"))
        table = f"{quoted_name(self.schema)}.{quoted_name(self.axis.axis)}"
        pairs = zip((DATASET, INDEX), _CHOSEN, strict=True)
        equal = [
            f"{table}.{quoted_name(column)} = {name}.{chosen}"
            for column, chosen in pairs
            if self.is_collection or column == INDEX
        ]
        try:
            yield f"LEFT SEMI JOIN {name} ON {' AND '.join(equal)}"
        finally:
            connections.disconnect(name)

    def _chosen_table(self) -> pa.Table:
        owners, within = self.axis.split(self.positions)
        names = pa.array(self.axis.names, pa.string())
        datasets = pa.DictionaryArray.from_arrays(pa.array(owners), names).cast(pa.string())
        return pa.table([datasets, pa.array(within)], names=list(_CHOSEN))

    def names(self) -> pa.Array:
        """Return the name of each entry."""
        owners, within = self.axis.split(self.positions)
        starts = np.searchsorted(owners, np.arange(len(self.axis.names) + 1))
        parts = [
            daf.get_pa_vector(self.axis.axis, NAME)
            .cast(pa.large_string())
            .take(pa.array(within[starts[number] : starts[number + 1]]))
            for number, daf in enumerate(self.axis.members.values())
        ]
        return pa.concat_arrays([pa.array([], pa.large_string()), *parts])


def weights_of(chosen: ChosenEntries, text: str, names: pa.Array) -> npt.NDArray[np.float64]:
    """Return the weight of each chosen entry.

    Divisions are those of real numbers: ``1 / count(*) OVER (...)`` is no integer.

    Raises
    ------
    InvalidInputError
        One is missing, negative or infinite; or all are 0; or they are no numbers.
    """
    values = chosen.values(text, "weights", real_divisions(text))
    type_ = values.type
    is_number = pa.types.is_integer(type_) or pa.types.is_floating(type_)
    is_number |= pa.types.is_decimal(type_) or pa.types.is_boolean(type_)
    if not is_number and not pa.types.is_null(type_):
        raise errors.InvalidInputError(
            f"weights= yields {type_}, not numbers; write an expression such as "
            "1 / count(*) OVER (PARTITION BY cell_type)"
        )
    weights: npt.NDArray[np.float64] = (
        pc.cast(values, pa.float64(), safe=False).fill_null(np.nan).to_numpy(zero_copy_only=False)
    )
    faults = (
        ("missing (NULL or NaN)", np.isnan(weights), "coalesce(..., 0) gives them none"),
        ("negative", weights < 0, "greatest(..., 0) gives them none"),
        ("infinite", np.isinf(weights), "look for a division by 0; nullif(..., 0) finds it"),
    )
    for what, is_wrong, advice in faults:
        if is_wrong.any():
            first = names[int(np.argmax(is_wrong))].as_py()
            raise errors.InvalidInputError(
                f"weights= is {what} for {int(is_wrong.sum()):,} of {weights.size:,} entries of "
                f"axis {chosen.axis.axis!r}, the first is {first!r}; {advice}, or leave these "
                "entries out with where="
            )
    if not weights.any():
        raise errors.InvalidInputError(
            f"weights= is 0 for all {weights.size:,} entries, so that none can be drawn"
        )
    return weights


@dataclass(frozen=True, slots=True)
class Classes:
    """Which entries have the same values."""

    codes: Codes
    """Of each entry, from 0; all numbers occur."""
    keys: Keys
    """Of each code: made of the values and a seed."""


def classes_of(
    chosen: ChosenEntries,
    expressions: str | Sequence[str],
    *,
    keyword: str,
    seed: int,
    names: pa.Array,
    allows_null: bool,
) -> Classes:
    """Return which entries agree in one expression, or in several.

    Raises
    ------
    InvalidInputError
        A value is missing where that is not allowed; or they are of a type without equality.
    """
    items = expressions_of(expressions, keyword)
    codes, keys = np.zeros(len(names), np.int64), np.zeros(len(names), np.uint64)
    for item in items:
        values = chosen.values(_as_column(chosen, item), keyword)
        if not allows_null and values.null_count:
            first = names[int(np.argmax(np.asarray(values.is_null())))].as_py()
            raise errors.InvalidInputError(
                f"{keyword}= is missing for {values.null_count:,} of {len(names):,} entries of "
                f"axis {chosen.axis.axis!r}, the first is {first!r}, and nothing says to which "
                f"group they belong; leave them out (where={f'{item} IS NOT NULL'!r}), or make "
                f"each one a group ({keyword}={f'coalesce({item}, name)'!r})"
            )
        item_codes, item_keys = _coded(values, keyword, seed)
        codes = codes * item_keys.size + item_codes
        keys = keys * _FACTOR + item_keys[item_codes]
        _, first_rows, codes = np.unique(codes, return_index=True, return_inverse=True)
    return Classes(codes, keys[first_rows])


def expressions_of(expressions: object, keyword: str) -> list[str]:
    """Return expressions of SQL, of which one string may have several."""
    listed = [
        part.strip() for item in written_items(expressions, keyword) for part in list_items(item)
    ]
    if not listed or not all(listed):
        raise errors.QueryError(f"{keyword}= is empty; pass a vector, or an expression of SQL")
    return listed


def _as_column(chosen: ChosenEntries, item: str) -> str:
    """Return an expression; the name of a vector is that vector, whatever it looks like."""
    members = chosen.axis.members.values()
    is_vector = any(daf.has_vector(chosen.axis.axis, item) for daf in members)
    return quoted_name(item) if is_vector else item


def _coded(values: pa.Array, keyword: str, seed: int) -> tuple[Codes, Keys]:
    """Return a number for each value, and a key for each number."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    try:
        encoded = pc.dictionary_encode(values, null_encoding="encode")
        strings: Any = encoded.dictionary.cast(pa.large_string()).fill_null("")
    except (pa.ArrowException, NotImplementedError) as error:
        raise errors.InvalidInputError(
            f"{keyword}= yields {values.type}; pass an expression that yields strings, numbers or "
            "booleans"
        ) from error
    codes: Codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, name_keys(strings, seed)
