"""Relations: vectors whose values are entries of another axis, as foreign keys of tables are.

Which axis it is was recorded when the vector was written, or follows from its name.  Metadata say
it; whether the values are entries is what `values_without_entry` looks at.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa

from daf_storage._lazy import lazy_module
from daf_storage.base import VectorInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy_module("pyarrow.compute")

RelationSource: TypeAlias = Literal["import", "name"]
"""How a relation is known: recorded with the vector, as an import does, or by its name alone."""

_PIECE_ROWS = 1 << 17


@dataclass(frozen=True, slots=True, order=True)
class Relation:
    """A vector whose values are entries of an axis; an empty or missing value is of none."""

    axis: str
    """The axis that the vector runs along."""
    vector: str
    """Its name on that axis."""
    to_axis: str
    """The axis that its values are entries of."""
    source: RelationSource
    """Whether that was recorded when the vector was written, or follows from its name."""


def relation_of(axes: Collection[str], vector: VectorInfo) -> Relation | None:
    """Return the relation of a vector, if its values are entries of one of some axes.

    What was recorded goes before the name.  By its name a vector of strings refers to the axis of
    that name, or of the part before the first dot: ``type`` and ``type.manual`` to ``type``.
    """
    if not vector.storage_type.is_string:
        return None
    if vector.entries_of in axes:
        return Relation(vector.axis, vector.name, str(vector.entries_of), "import")
    for name in (vector.name, vector.name.split(".", 1)[0]):
        if name in axes:
            return Relation(vector.axis, vector.name, name, "name")
    return None


def relations_of(axes: Collection[str], vectors: Iterable[VectorInfo]) -> list[Relation]:
    """Return the relations of vectors to some axes, in alphabetical order."""
    relations = (relation_of(axes, vector) for vector in vectors)
    return sorted(relation for relation in relations if relation is not None)


def values_without_entry(batches: Iterable[pa.Array], entries: pa.Array) -> tuple[str, int] | None:
    """Return the first of some strings that is no entry of an axis, and how many are none.

    Empty strings and nulls are missing values, which are not counted.  One batch is looked at
    at a time, each of its distinct strings once.

    >>> values_without_entry([pa.array(["B", "", "X", "X"])], pa.array(["A", "B"]))
    ('X', 2)
    >>> values_without_entry([pa.array(["B", None])], pa.array(["A", "B"])) is None
    True
    """
    first, count = "", 0
    for batch in batches:
        for start in range(0, len(batch), _PIECE_ROWS):
            piece = batch.slice(start, _PIECE_ROWS)
            encoded = piece if pa.types.is_dictionary(piece.type) else piece.dictionary_encode()
            strings = encoded.dictionary.cast(entries.type)
            is_entry = pc.is_valid(pc.index_in(strings, value_set=entries))
            is_known = pc.or_(is_entry, pc.equal(strings, "")).to_numpy(zero_copy_only=False)
            if is_known.all():
                continue
            codes = encoded.indices.drop_null().to_numpy(zero_copy_only=False)
            unknown = np.flatnonzero(~is_known[codes])
            if len(unknown) and not count:
                first = strings[int(codes[unknown[0]])].as_py()
            count += len(unknown)
    return (first, count) if count else None
