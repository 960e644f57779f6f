"""How the bytes of a property are to be read, and what its values are, beyond type and shape.

Attributes of the stored group or array hold it.  So it comes and goes with the property: what
replaces the property has an attribute only if it was written with it.  Programs that do not know
the attributes ignore them.  Source: docs/reference/format.md, "Conventions".
"""

from __future__ import annotations

import enum
import reprlib
import warnings
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from daf_storage._lazy import lazy_module
from daf_storage.base import VectorInfo, name_problem
from daf_storage.errors import CorruptDataError, DafWarning, ReadOnlyError
from daf_storage.trees import Node

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy_module("pyarrow.compute")

ATTRIBUTE: Final = "daf_convention"
"""Name of the attribute of a convention."""

ENTRIES_OF: Final = "daf_entries_of"
"""Name of the attribute of a vector whose values are entries of an axis: that axis."""


class Convention(enum.Enum):
    """The conventions; a property has one of them or none."""

    ROW_MAJOR = "row-major"
    """Of a matrix of an axis with itself: its rows are stored one after the other."""
    EMPTY_IS_MISSING = "empty-is-missing"
    """Of a vector of strings: an empty string stands for a missing value."""


class ConventionWarning(DafWarning):
    """A convention of a stored property is unreadable or unknown, and is ignored."""


def attributes_of(convention: Convention | None, entries_of: str | None = None) -> dict[str, str]:
    """Return the attributes that store a convention, and the axis that values are entries of.

    >>> attributes_of(Convention.ROW_MAJOR)
    {'daf_convention': 'row-major'}
    >>> attributes_of(None, "type")
    {'daf_entries_of': 'type'}
    """
    attributes = {} if convention is None else {ATTRIBUTE: convention.value}
    return attributes if entries_of is None else {**attributes, ENTRIES_OF: entries_of}


def follows(node: Node, convention: Convention, *, what: str) -> bool:
    """Return whether a node follows a convention; one that makes no sense there is ignored."""
    problem, found = read_convention(node, {convention})
    remedy = "it is ignored, so the values may be read wrongly: write the property again"
    _warn(what, problem, remedy)
    return found is convention


def entries_axis(node: Node, *, what: str) -> str | None:
    """Return the axis that values were recorded to be entries of; nonsense is ignored."""
    problem, axis = read_entries_axis(node)
    _warn(what, problem, "it is ignored: write the vector again")
    return axis


def _warn(what: str, problem: str, remedy: str) -> None:
    if problem:
        warnings.warn(f"{what}: {problem}; {remedy}", ConventionWarning, stacklevel=3)


def read_entries_axis(node: Node) -> tuple[str, str | None]:
    """Return what is wrong with the recorded axis of a vector's values, and that axis."""
    try:
        value = node.attribute(ENTRIES_OF)
    except (CorruptDataError, ReadOnlyError):  # said of the convention, which is beside it
        return "", None
    if value is None:
        return "", None
    if name_problem(value) is not None:
        text = f"its attribute {ENTRIES_OF} is {reprlib.repr(value)}, and not the name of an axis"
        return text, None
    return "", str(value)


def read_convention(node: Node, allowed: set[Convention]) -> tuple[str, Convention | None]:
    """Return what is wrong with the convention of a node, and that if nothing is."""
    try:
        value = node.attribute(ATTRIBUTE)
    except (CorruptDataError, ReadOnlyError) as error:
        return f"its attributes cannot be read ({error})", None
    if value is None:
        return "", None
    for convention in allowed:
        if isinstance(value, str) and value == convention.value:
            return "", convention
    known = " or ".join(repr(one.value) for one in allowed) or "absent"
    return f"its attribute {ATTRIBUTE} is {reprlib.repr(value)}; here it can only be {known}", None


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
