"""The reader of a Daf data set: every rule common to the formats, once.

`DafReader` answers questions about scalars, axes, vectors and matrices of any `Tree`.  It reads
metadata when asked and data when needed, keeps nothing open, and hands out views of mapped files
that stay valid as long as they are referred to.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from daf_storage import errors
from daf_storage.base import VectorInfo
from daf_storage.data import _summary as summaries
from daf_storage.data._page import data_set_section
from daf_storage.data._property_reader import PropertyReader
from daf_storage.data._stored import Relation, relations_of
from daf_storage.data._summary import as_mermaid
from daf_storage.display import PreviewBudget, html_page
from daf_storage.trees import Remarked


@dataclass(frozen=True, slots=True)
class Origin:
    """How a data set can be opened again for reading, in this process or another."""

    open_again: Callable[[str], DafReader]
    """Opens a path for reading."""
    path: str
    """An absolute path, or a URL."""
    name: str
    """The name of the data set."""

    def open(self) -> DafReader:
        """Open it again, by the same name."""
        reader = self.open_again(self.path)
        reader.rename(self.name)
        return reader


def is_in_place(daf: DafReader) -> bool:
    """Return whether a data set is the file of another format, which is read and never written."""
    return isinstance(daf.tree, Remarked)


def writing_remedy(daf: DafReader) -> str:
    """Return what to do in order to write, where a data set is open for reading."""
    if is_in_place(daf):
        return (
            "it is read in place and never written; write beside it: "
            f'connect({daf.location!r}, overlay="mine.daf.zarr"), or import it into a data set of '
            f"its own: daf import {daf.location} OUT.daf.zarr"
        )
    return daf.how_to_write


def check_reader(value: object, function: str) -> None:
    """Refuse a path, or anything else, where an open data set is asked for."""
    if isinstance(value, DafReader):
        return
    is_path = isinstance(value, str | os.PathLike)
    raise errors.InvalidInputError(
        f"{function} takes an open data set, not {value!r}; "
        + (f"pass open_daf({str(value)!r})" if is_path else "open one with open_daf")
    )


class DafReader(PropertyReader):
    """A Daf data set that can be read.

    Do not construct it; `open_daf`, `ZarrDaf` and `MemoryDaf` return one (or a writer, which can
    do all of this too).  It is safe to use from several threads.

    Examples
    --------
    >>> import daf_storage
    >>> daf = daf_storage.MemoryDaf(name="tiny")
    >>> daf.add_axis("cell", ["TATA", "GATA"])
    >>> daf.set_vector("cell", "age", [30, 60])
    >>> daf.get_np_vector("cell", "age").tolist()
    [30, 60]
    """

    how_to_write: ClassVar[str] = (
        "it was opened for reading; open it with mode 'r+' to change it: open_daf(path, 'r+'), or "
        "connect(path, mode='r+')"
    )
    """What messages advise where it was to be written."""

    origin: Origin | None = None
    """How it can be opened again; None if it is in memory."""

    def __reduce__(self) -> tuple[Callable[[Origin], DafReader], tuple[Origin]]:
        """Pickle the path and the name; whoever unpickles it opens the path again."""
        if self.is_writable:
            raise errors.InvalidInputError(
                f"{self.location}: a data set that is open for writing cannot be pickled, since "
                "one process alone may write; pickle a reader of it, open_daf(path)"
            )
        return Origin.open, (self.require_origin(),)

    def require_origin(self) -> Origin:
        """Return how it can be opened again.

        Raises
        ------
        InvalidInputError
            It is in memory, or was closed.
        """
        self._check_open()
        if self.origin is None:
            raise errors.InvalidInputError(
                f"{self.location}: no path leads to this data set, so it cannot be pickled; "
                "copy_all() it to a path, and open that"
            )
        return self.origin

    def description(self) -> str:
        """Return a readable summary: axes, vectors, matrices and scalars.  Reads metadata only."""
        return summaries.as_text(self.summary())

    def summary(self) -> summaries.DafSummary:
        """Return what the data set holds, as a value.  Reads metadata only."""
        return summaries.summarise(self)

    def diagram(self) -> str:
        """Return a picture of the axes, and of what relates them, in the language of Mermaid.

        Axes are entities with their vectors; relations and matrices are edges.  Reads metadata
        only.

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("type", ["B", "T"])
        >>> daf.add_axis("cell", ["TATA", "GATA"])
        >>> daf.set_vector("cell", "type", ["T", "T"])
        >>> print(daf.diagram())
        erDiagram
            a0["cell (2)"] {
                String type FK
            }
            a1["type (2)"]
            a0 }o--o| a1 : "type"
        """
        return as_mermaid(self.summary())

    def _repr_html_(self) -> str:
        return html_page(data_set_section(self.summary(), self, PreviewBudget()))

    def relations(self) -> list[Relation]:
        """Return the vectors whose values are entries of an axis.  Reads metadata only.

        A vector whose metadata are broken is left out; `summary` and `verify` name it.

        Returns
        -------
        list of Relation
            In alphabetical order.  Values are not looked at: `verify` tells of those that are no
            entries.

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("type", ["B", "T"])
        >>> daf.add_axis("cell", ["TATA", "GATA"])
        >>> daf.set_vector("cell", "type.manual", ["T", ""])
        >>> daf.relations()
        [Relation(axis='cell', vector='type.manual', to_axis='type', source='name')]
        """
        infos: list[VectorInfo] = []
        for axis in self.axes_set():
            with suppress(errors.DafError):
                found = (info for _, info in self.vector_infos(axis))
                infos += [info for info in found if isinstance(info, VectorInfo)]
        return relations_of(self.axes_set(), infos)

    def read_only(self) -> DafReader:
        """Return an object that reads the same data and cannot change it; a reader returns itself.

        It is called ``NAME.read_only`` and sees what is written through the other one.
        """
        return self
