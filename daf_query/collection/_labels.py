"""Labels of the entries of a concatenated axis: their names, and their data sets."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.collection._members import Member, Positions
from daf_query.scan import NAME
from daf_query.slice import Labels
from daf_storage import errors


class DuplicateNamesWarning(errors.DafWarning):
    """Names occur in several data sets of a collection, so labels have that of the data set."""


def datasets_of(members: Sequence[Member], sides: Sequence[Positions], length: int) -> Any:
    """Return the data set of each entry, as an Arrow dictionary of its name.

    Parameters
    ----------
    sides
        Of each data set, which entries of the whole it has.
    """
    codes = np.zeros(length, np.int32)
    for number, side in enumerate(sides):
        codes[side] = number
    names = pa.array([member.name for member in members], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(codes), names)


def names_of(
    members: Sequence[Member], sides: Sequence[Positions], length: int, *, are_rows: bool
) -> pa.Array:
    """Return the name of each entry of a concatenated axis."""
    parts = []
    for member in members:
        part = member.part
        axis = part.rows_axis if are_rows else part.columns_axis
        positions = part.row_positions if are_rows else part.column_positions
        with part.unchanged_axes():
            names = part.daf.get_pa_vector(axis, NAME).take(pa.array(positions))
        parts.append(names.cast(pa.string()))
    order = np.empty(length, np.int64)
    if sides:
        order[np.concatenate(list(sides))] = np.arange(length)
    return pa.concat_arrays([pa.array([], pa.string()), *parts]).take(pa.array(order))


def labels_of(axis: str, names: pa.Array, datasets: Any) -> Labels:
    """Return labels; unique ones are the names, and ``NAME-DATASET`` where a name occurs twice."""
    plain = datasets.dictionary_decode()
    objects = names.to_numpy(zero_copy_only=False).astype(object, copy=False)
    unique = objects
    if repeated(names, datasets)[0]:
        joined = pc.binary_join_element_wise(names, plain, "-")
        unique = joined.to_numpy(zero_copy_only=False).astype(object, copy=False)
    return Labels(axis, objects, unique, plain)


def repeated(names: pa.Array, datasets: Any) -> tuple[int, tuple[str, list[str]]]:
    """Return how many names occur in several data sets, and the first with these.  Pure.

    >>> runs = pa.array(["a", "b", "b"]).dictionary_encode()
    >>> repeated(pa.array(["x", "x", "y"]), runs)
    (1, ('x', ['a', 'b']))
    """
    encoded = names.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    owners = datasets.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    width = max(len(datasets.dictionary), 1)
    pairs = np.unique(codes * width + owners)
    counts = np.bincount(pairs // width, minlength=len(encoded.dictionary))
    several = np.flatnonzero(counts > 1)
    if not several.size:
        return 0, ("", [])
    first = int(several[0])
    of_first = pairs[pairs // width == first] % width
    having = datasets.dictionary.take(pa.array(of_first)).to_pylist()
    return int(several.size), (encoded.dictionary[first].as_py(), having)


def warn_of_repeated(location: str, axis: str, names: pa.Array, datasets: Any) -> None:
    """Warn of names that occur in several data sets."""
    count, (name, having) = repeated(names, datasets)
    if count:
        what = "name occurs" if count == 1 else "names occur"
        warnings.warn(
            f"{location}: {count:,} {what} on axis {axis!r} of several data sets, such as "
            f"{name!r} in {' and '.join(having[:2])}; the labels are NAME-DATASET, as "
            f"'{name}-{having[0]}', and the column dataset says which it is",
            DuplicateNamesWarning,
            stacklevel=4,
        )
