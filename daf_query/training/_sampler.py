"""A sampler: chosen entries of an axis with weights and splits, to be handed to a training loop."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query._provenance import Record, with_record
from daf_query._row_files import Rows, format_of, save_rows
from daf_query.scan import INDEX, NAME
from daf_query.table import DATASET
from daf_query.training._allocation import SplitCodes
from daf_storage import errors

SPLIT: Final = "split"
WEIGHT: Final = "weight"


@dataclass(frozen=True, eq=False, repr=False)
class Sampler:
    """Entries of an axis with weights and splits; `DafSession.sampler` makes one.

    A frozen value: arrays of it cannot be written.  ``sampler["train"]`` is the part of a split.
    It can be pickled, and knows nothing of the session that made it.

    Examples
    --------
    >>> import daf_query, daf_storage
    >>> daf = daf_storage.MemoryDaf()
    >>> daf.add_axis("cell", ["A", "B", "C", "D", "E"])
    >>> daf.set_vector("cell", "type", ["b", "b", "b", "t", "t"])
    >>> sampler = daf_query.connect(daf).sampler(
    ...     "cell", where="name <> 'A'", weights="1 / count(*) OVER (PARTITION BY type)",
    ...     split={"train": 0.5, "val": 0.5}, stratify="type",
    ... )
    >>> sampler
    Sampler('cell', 4 of 5 entries: train 2, val 2; weighted)
    >>> sampler.indices.tolist(), sampler.weights.tolist()
    ([1, 2, 3, 4], [0.5, 0.5, 0.5, 0.5])
    >>> sampler["train"].names.to_pylist()
    ['B', 'E']
    """

    axis: str
    """The axis whose entries they are."""
    indices: npt.NDArray[np.int64]
    """The 0-based positions along the axis, ascending, each once, shape ``(len(sampler),)``.  Of
    several data sets as one they count through, as the rows of the union table do."""
    names: pa.Array
    """The name of each entry, strings."""
    weights: npt.NDArray[np.float64] | None
    """The weight of each entry: finite, not negative; None if there are none."""
    split_codes: SplitCodes | None
    """The number of the split of each entry, in the order of `shares`; None if there are none."""
    shares: Mapping[str, float]
    """What share each split was to get, by its name."""
    lengths: Mapping[str, int]
    """How many entries the axis has in each data set, by its name."""
    is_collection: bool
    """Whether it is of several data sets as one."""
    record: Record = field(default_factory=dict)
    """Where it comes from: how it was asked for, and the fingerprints of the data sets."""

    def __post_init__(self) -> None:
        for array in (self.indices, self.weights, self.split_codes):
            if array is not None:
                array.flags.writeable = False

    def __len__(self) -> int:
        return int(self.indices.size)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {size:,}" for name, size in self.sizes.items())
        weighted = "; weighted" if self.weights is not None else ""
        return (
            f"Sampler({self.axis!r}, {len(self):,} of {self.axis_length:,} entries"
            f"{': ' if sizes else ''}{sizes}{weighted})"
        )

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{size:,}</td>"
            f"<td>{size / max(len(self), 1):.2%}</td><td>{self.shares[name]:.2%}</td></tr>"
            for name, size in self.sizes.items()
        )
        table = "<tr><th>split</th><th>entries</th><th>share</th><th>asked for</th></tr>" + rows
        weighted = "" if self.weights is None else ", weighted"
        return (
            f"<div><strong>{html.escape(self.axis)}</strong>: {len(self):,} of "
            f"{self.axis_length:,} entries{weighted}"
            + (f"<table>{table}</table>" if rows else "")
            + "</div>"
        )

    @property
    def axis_length(self) -> int:
        """How many entries the axis has."""
        return sum(self.lengths.values())

    @property
    def sizes(self) -> dict[str, int]:
        """How many entries each split has, by its name; of a part, that of the part."""
        if self.split_codes is None:
            return {}
        counts = np.bincount(self.split_codes, minlength=len(self.shares)).tolist()
        return {name: n for name, n in zip(self.shares, counts, strict=True) if n}

    @property
    def splits(self) -> pa.DictionaryArray | None:
        """The name of the split of each entry, as an Arrow dictionary; None if there are none."""
        if self.split_codes is None:
            return None
        names = pa.array(list(self.shares), pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(self.split_codes), names)

    @property
    def positions(self) -> npt.NDArray[np.int64]:
        """The 0-based position of each entry within its data set."""
        return self.indices - self._starts()[self._owners()]

    @property
    def datasets(self) -> pa.DictionaryArray | None:
        """The data set of each entry, of several as one; None of a single one."""
        if not self.is_collection:
            return None
        names = pa.array(list(self.lengths), pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(self._owners().astype(np.int32)), names)

    def _starts(self) -> npt.NDArray[np.int64]:
        return np.concatenate([[0], np.cumsum(list(self.lengths.values()), dtype=np.int64)])

    def _owners(self) -> npt.NDArray[np.int64]:
        return np.searchsorted(self._starts(), self.indices, side="right") - 1

    def __getitem__(self, split: str) -> Sampler:
        """Return the entries of one split, with their weights.

        Raises
        ------
        NotFoundError
            There is no such split.
        """
        if self.split_codes is None or split not in self.shares:
            known = errors.known_names(self.shares, none="none; it was made without split=")
            raise errors.NotFoundError(
                f"the sampler of axis {self.axis!r} has no split {split!r}; it has {known}"
                f"{errors.nearest(str(split), self.shares)}"
            )
        rows = np.flatnonzero(self.split_codes == list(self.shares).index(split))
        return replace(
            self,
            indices=self.indices[rows],
            names=self.names.take(pa.array(rows)),
            weights=None if self.weights is None else self.weights[rows],
            split_codes=self.split_codes[rows],
        )

    def to_arrow(self, *, provenance: bool = False) -> pa.Table:
        """Return a row for each entry.

        The columns are ``dataset`` (of several data sets as one), ``index`` (the position within
        the data set), ``name``, ``split`` (a dictionary) and ``weight``, as far as it has them.

        Parameters
        ----------
        provenance
            Whether the metadata of its schema say where it comes from.
        """
        columns: dict[str, Any] = {
            DATASET: self.datasets,
            INDEX: pa.array(self.positions),
            NAME: self.names,
            SPLIT: self.splits,
            WEIGHT: None if self.weights is None else pa.array(self.weights),
        }
        table = pa.table({name: values for name, values in columns.items() if values is not None})
        if provenance:
            table = table.cast(with_record(table.schema, self.record))
        return table

    def save(self, path: str | Path) -> None:
        """Write it to a file, which appears, or is replaced, when it is complete.

        Parameters
        ----------
        path
            ``.parquet`` and ``.arrow`` have all of it and are read by `DafSession.load_sampler`;
            ``.csv``, ``.tsv``, ``.json`` and ``.ndjson`` have the rows of `to_arrow` for other
            programs.

        Raises
        ------
        InvalidInputError
            The suffix is another.
        """
        path = Path(path)
        file_format = format_of(path)
        table = self.to_arrow(provenance=True)
        save_rows(Rows(table.schema, table.to_batches()), path, file_format)
