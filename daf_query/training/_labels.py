"""Vectors of the entries of a sampler as numbers that a model learns: labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.slice import MatrixSlice
from daf_query.table import AxisDataset
from daf_query.training._sampled import Sampled
from daf_storage import DafReader, errors

RESERVED = ("x", "index")
"""What a batch has besides labels."""


@dataclass(frozen=True)
class Labels:
    """A number for each entry of a sampler, by the name of the vector."""

    values: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    """Numbers and booleans as they are stored; of strings, the number of the class, -1 if missing.
    """
    classes: Mapping[str, pa.Array] = field(default_factory=dict)
    """Of vectors of strings, the values, sorted: those of all entries of the axis, so that numbers
    are the same in each split."""

    def of(self, entries: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[Any]]:
        """Return the labels of some entries."""
        return {name: values[entries] for name, values in self.values.items()}


def labels_of(part: MatrixSlice, sampler: Sampled, names: str | Sequence[str]) -> Labels:
    """Read vectors of the rows axis.

    Raises
    ------
    VectorNotFoundError
        A data set has no such vector.
    InvalidInputError
        A name is that of something else in a batch; or vectors of several data sets differ in type.
    """
    readers = {member.name: member.part.daf for member in part.whole.members}
    values, classes = {}, {}
    for name in [names] if isinstance(names, str) else names:
        if name in RESERVED:
            raise errors.InvalidInputError(
                f"a label cannot be called {name!r}, since a batch has this already; store the "
                "vector by another name"
            )
        column = _column(readers, sampler, name)
        if pa.types.is_large_string(column.type):
            known = pc.unique(_whole(readers, sampler.axis, name)).drop_null()
            classes[name] = known.take(pc.array_sort_indices(known))
            codes = pc.index_in(column, value_set=classes[name])
            values[name] = codes.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        else:
            values[name] = column.to_numpy(zero_copy_only=False)
    return Labels(values, classes)


def _column(readers: Mapping[str, DafReader], sampler: Sampled, name: str) -> pa.Array:
    """Return the values of a vector for the entries of a sampler, in their order."""
    ends = np.cumsum(list(sampler.lengths.values()), dtype=np.int64)
    stops = np.searchsorted(sampler.indices, ends)
    parts = []
    start = 0
    for number, (dataset, stop) in enumerate(zip(sampler.lengths, stops.tolist(), strict=True)):
        if stop > start:
            first = int(ends[number]) - list(sampler.lengths.values())[number]
            rows = pa.array(sampler.indices[start:stop] - first)
            parts.append(_vector(readers[dataset], sampler.axis, name).take(rows))
        start = stop
    return _joined(parts, name)


def _whole(readers: Mapping[str, DafReader], axis: str, name: str) -> pa.Array:
    return _joined([_vector(daf, axis, name) for daf in readers.values()], name)


def _joined(parts: list[pa.Array], name: str) -> pa.Array:
    types = {part.type for part in parts}
    if len(types) > 1:
        listed = ", ".join(sorted(map(str, types)))
        raise errors.InvalidInputError(
            f"the vector {name!r} holds {listed} in different data sets; a label has one type"
        )
    return pa.concat_arrays(parts)


def _vector(daf: DafReader, axis: str, name: str) -> pa.Array:
    """Return a vector as queries have it: missing strings are null."""
    if not daf.has_vector(axis, name):
        raise errors.vector_not_found(daf.location, axis, name, daf.vectors_set(axis))
    column = AxisDataset(daf, axis).to_table(columns=[name]).column(0)
    values = column.combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks)
    is_string = pa.types.is_string(values.type) or pa.types.is_string_view(values.type)
    return values.cast(pa.large_string()) if is_string else values
