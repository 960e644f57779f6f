"""Labels of the rows and the columns of a slice: their names, and their data sets."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.slice._whole import Whole
from daf_query.table import DATASET
from daf_storage import errors


class DuplicateNamesWarning(errors.DafWarning):
    """Names occur in several data sets of a collection, so labels have that of the data set."""


@dataclass(frozen=True, slots=True)
class Labels:
    """What the rows or the columns of a slice are called."""

    axis: str
    names: npt.NDArray[np.object_]
    """The entry of each, ``str`` objects."""
    unique: npt.NDArray[np.object_]
    """A label of each that no other entry has."""
    datasets: Any = None
    """The data set of each, as Arrow strings; None where there is but one."""

    def as_columns(self, taken: Collection[str] = ()) -> dict[str, pa.Array]:
        """Return them as columns of a table that has others, of the names ``taken``."""
        columns = {} if self.datasets is None else {DATASET: self.datasets}
        axis = self.axis if self.axis not in columns else f"{self.axis}_2"
        columns[axis] = pa.array(self.names, pa.string())
        return {_unused(name, taken): column for name, column in columns.items()}


def _unused(name: str, taken: Collection[str]) -> str:
    """Return a name, with underscores if it is taken."""
    while name in taken:
        name = f"{name}_"
    return name


@dataclass(frozen=True, slots=True)
class AxisNames:
    """The entries of an axis that a slice selects, each once."""

    positions: npt.NDArray[np.int64]
    """Their positions along the axis, ascending."""
    names: pa.Array
    datasets: pa.DictionaryArray | None = None
    """The data set of each; None where there is but one."""

    def dataset(
        self, positions: npt.NDArray[np.int64], offsets: npt.NDArray[Any]
    ) -> dict[str, pa.Array]:
        """Return a column of the data set of each element, if there are several."""
        if self.datasets is None:
            return {}
        codes = np.searchsorted(self.positions, positions)
        return {DATASET: self.datasets.take(pa.array(codes[offsets]))}

    def column(
        self, positions: npt.NDArray[np.int64], offsets: npt.NDArray[Any]
    ) -> pa.DictionaryArray:
        """Return the entry of each element, by its offset within some selected positions."""
        codes = np.searchsorted(self.positions, positions).astype(np.int32)
        return pa.DictionaryArray.from_arrays(pa.array(codes[offsets]), self.names)


def names_of(whole: Whole, number: int) -> pa.Array:
    """Return the names of the rows (0) or of the columns (1)."""
    side = whole.sides[number]
    if side.names is not None:
        return side.names
    if whole.joined is None:
        return whole.members[0].part.names(number)
    parts = [member.part.names(number).cast(pa.string()) for member in whole.members]
    places = [(member.rows, member.columns)[number].positions for member in whole.members]
    order = np.empty(side.selection.size, np.int64)
    if places:
        order[np.concatenate(places)] = np.arange(order.size)
    return pa.concat_arrays([pa.array([], pa.string()), *parts]).take(pa.array(order))


def datasets_of(whole: Whole) -> pa.DictionaryArray:
    """Return the data set of each entry of the concatenated axis."""
    number = 0 if whole.rows_are_concatenated else 1
    codes = np.zeros(whole.shape[number], np.int32)
    for code, member in enumerate(whole.members):
        codes[(member.rows, member.columns)[number].positions] = code
    names = pa.array([member.name for member in whole.members], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(codes), names)


def labels_of(whole: Whole) -> tuple[Labels, Labels]:
    """Return labels; unique ones are the names, and ``NAME-DATASET`` where a name occurs twice."""
    rows, columns = (_labels(whole, number) for number in (0, 1))
    return rows, columns


def _labels(whole: Whole, number: int) -> Labels:
    side, names = whole.sides[number], names_of(whole, number)
    objects = objects_of(names)
    if side.names is not None or whole.joined is None:
        return Labels(side.axis, objects, objects)
    datasets = datasets_of(whole)
    plain = datasets.dictionary_decode()
    unique = objects
    if _repeated(names, datasets)[0]:
        unique = objects_of(pc.binary_join_element_wise(names, plain, "-"))
    return Labels(side.axis, objects, unique, plain)


def objects_of(strings: pa.Array) -> npt.NDArray[np.object_]:
    """Return strings of Arrow as ``str`` objects."""
    objects: npt.NDArray[np.object_] = strings.to_numpy(zero_copy_only=False)
    return objects.astype(object, copy=False)


def axis_names(whole: Whole) -> tuple[AxisNames, AxisNames]:
    """Return the selected entries of both axes, each once."""
    both = []
    for number, side in enumerate(whole.sides):
        unique = first = side.selection.positions
        if not side.selection.is_all:
            unique, first = np.unique(unique, return_index=True)
        has_datasets = whole.joined is not None and side.names is None
        datasets = datasets_of(whole).take(pa.array(first)) if has_datasets else None
        both.append(AxisNames(unique, names_of(whole, number).take(pa.array(first)), datasets))
    return both[0], both[1]


def _repeated(names: pa.Array, datasets: pa.DictionaryArray) -> tuple[int, tuple[str, list[str]]]:
    """Return how many names occur in several data sets, and the first with these.  Pure.

    >>> runs = pa.array(["a", "b", "b"]).dictionary_encode()
    >>> _repeated(pa.array(["x", "x", "y"]), runs)
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


def warn_of_repeated(whole: Whole, labels: Labels) -> None:
    """Warn of names that occur in several data sets."""
    names = pa.array(labels.names, pa.string())
    count, (name, having) = _repeated(names, datasets_of(whole))
    if count:
        what = "name occurs" if count == 1 else "names occur"
        warnings.warn(
            f"{whole.location}: {count:,} {what} on axis {labels.axis!r} of several data sets, "
            f"such as {name!r} in {' and '.join(having[:2])}; the labels are NAME-DATASET, as "
            f"'{name}-{having[0]}', and the column dataset says which it is",
            DuplicateNamesWarning,
            stacklevel=4,
        )
