"""Explain a slice of several data sets before it is read: the whole, and the part of each."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from daf_query.collection._members import Whole
from daf_query.collection._reading import figures_of
from daf_query.slice import Companion, SliceExplanation, axis_bytes, shown_bytes
from daf_storage.spi import visible_name


@dataclass(frozen=True, slots=True, repr=False)
class CollectionExplanation:
    """What a slice of several data sets will read, and how much memory it will take.

    `CollectionSlice.explain` returns it.  Sizes are in bytes, and without names.
    """

    location: str
    """The data sets."""
    matrix: str
    """The name of the matrix."""
    rows_axis: str
    columns_axis: str
    rows: int
    """Number of rows."""
    columns: int
    """Number of columns."""
    dtype: str
    """The numpy dtype of the values."""
    is_sparse: bool
    """Whether the result is sparse: that of some data set is."""
    stored_elements: int
    """How many elements the result has, those that are filled among them."""
    is_exact: bool
    """Whether there are so many; if not, there are at most so many."""
    filled_elements: int
    """How many elements are lacking, whether or not the result stores them."""
    read_bytes: int
    """How many bytes of stored elements are read, of all."""
    requests: int | None
    """In about how many requests; None if no data set is on a server."""
    result_bytes: int
    """How much memory the result takes, at most."""
    memory_bytes: Mapping[str, int]
    """How much memory each form takes, at most."""
    members: Mapping[str, SliceExplanation]
    """The part of each data set of which something is selected, by its name."""

    @property
    def decoded_bytes(self) -> int:
        """How many bytes the compressed chunks expand to that are needed, of all."""
        return sum(member.decoded_bytes for member in self.members.values())

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python, for JSON."""
        return {
            "location": self.location,
            "matrix": self.matrix,
            "rows_axis": self.rows_axis,
            "columns_axis": self.columns_axis,
            "rows": self.rows,
            "columns": self.columns,
            "dtype": self.dtype,
            "is_sparse": self.is_sparse,
            "stored_elements": self.stored_elements,
            "is_exact": self.is_exact,
            "filled_elements": self.filled_elements,
            "read_bytes": self.read_bytes,
            "requests": self.requests,
            "result_bytes": self.result_bytes,
            "memory_bytes": dict(self.memory_bytes),
            "members": {name: member.to_dict() for name, member in self.members.items()},
        }

    def __repr__(self) -> str:
        at_most = "" if self.is_exact else "at most "
        stored = "sparse" if self.is_sparse else "dense"
        requests = "" if self.requests is None else f" in about {self.requests:,} requests"
        forms = [f"{name} {shown_bytes(size)}" for name, size in self.memory_bytes.items()]
        head = (
            f"matrix {self.matrix!r} of {self.location}: {self.rows:,} {self.rows_axis} x "
            f"{self.columns:,} {self.columns_axis}, {stored} {self.dtype}"
        )
        lines = [
            head,
            f"  elements  {at_most}{self.stored_elements:,} ({self.filled_elements:,} lacking)",
            f"  read      {shown_bytes(self.read_bytes)}{requests}",
            f"  result    {at_most}{shown_bytes(self.result_bytes)} of memory",
            f"  forms     {', '.join(forms)}",
        ]
        for name, member in self.members.items():
            chosen = [layout.by for layout in member.layouts if layout.state == "chosen"]
            lines.append(
                f"  {name}: {member.rows:,} x {member.columns:,}, by {''.join(chosen)}, "
                f"{shown_bytes(member.read_bytes)} to read"
            )
        return "\n".join(map(visible_name, lines))

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"


def explain(whole: Whole, companions: tuple[Companion, ...]) -> CollectionExplanation:
    """Return what a slice of several data sets costs; no values are read.

    Parameters
    ----------
    companions
        The other matrices that an AnnData of it has by default.
    """
    figures = figures_of(whole)
    members = {member.name: member.part.explain() for member in whole.members}
    requests = [each.requests for each in members.values() if each.requests is not None]
    memory_bytes = figures.memory_bytes()
    beside = sum(companion.estimated_bytes for companion in companions)
    for member in whole.members:
        part = member.part
        for axis, count in zip((part.rows_axis, part.columns_axis), part.shape, strict=True):
            beside += axis_bytes(part.daf, axis, count)
    memory_bytes["anndata"] = figures.result_bytes + beside
    return CollectionExplanation(
        location=whole.location,
        matrix=whole.name,
        rows_axis=whole.rows.axis,
        columns_axis=whole.columns.axis,
        rows=whole.shape[0],
        columns=whole.shape[1],
        dtype=str(whole.dtype),
        is_sparse=whole.is_sparse,
        stored_elements=figures.elements.count,
        is_exact=figures.elements.is_exact,
        filled_elements=sum(each.count for each in whole.missing),
        read_bytes=sum(each.read_bytes for each in members.values()),
        requests=sum(requests) if requests else None,
        result_bytes=figures.result_bytes,
        memory_bytes=memory_bytes,
        members=members,
    )
