"""Reports of an import or an export: the parts that are lost, changed, renamed or kept."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Literal

from daf_storage.errors import DafWarning, UnsupportedInputError


class AnnDataWarning(DafWarning):
    """A part of an AnnData was not carried over, or not as it was."""


@dataclass(frozen=True, slots=True)
class ReportItem:
    """One part that differs."""

    kind: Literal["lost", "changed", "renamed", "kept"]
    """``lost``: not carried over at all.  ``changed``: carried over in another form.  ``renamed``:
    carried over as it is under another name, and back under its own.  ``kept``: Daf has no place
    for it; it lies beside the data in anndata's own encoding, and comes back on export."""
    what: str
    """Which part, such as ``obs['age']``."""
    message: str
    """Why, and what became of it."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}: {self.message}"


@dataclass(slots=True)
class Report:
    """What differs after an import or an export."""

    items: list[ReportItem] = field(default_factory=list)
    """In the order in which they were met."""

    def lost(self, what: str, message: str) -> None:
        """Note a part that was not carried over."""
        self.items.append(ReportItem("lost", what, message))

    def changed(self, what: str, message: str) -> None:
        """Note a part that was carried over in another form."""
        self.items.append(ReportItem("changed", what, message))

    def renamed(self, what: str, message: str) -> None:
        """Note a part that has another name now."""
        self.items.append(ReportItem("renamed", what, message))

    def kept(self, what: str, message: str) -> None:
        """Note a part that lies beside the data."""
        self.items.append(ReportItem("kept", what, message))

    def refuse_losses(self, source: str, *, what: str) -> None:
        """Raise if something is lost.

        Raises
        ------
        UnsupportedInputError
            It names what, and why.
        """
        lost = [f"{item.what} ({item.message})" for item in self.items if item.kind == "lost"]
        if lost:
            raise UnsupportedInputError(
                f"{source}: the {what} would lose {'; '.join(lost)}; nothing was written; do it "
                "without strict=True (on the command line: --strict) to leave that out"
            )

    def warn(self) -> None:
        """Issue a warning for each part that was lost or changed."""
        for item in self.items:
            if item.kind in {"lost", "changed"}:
                warnings.warn(f"{item.what}: {item.message}", AnnDataWarning, stacklevel=3)

    def __str__(self) -> str:
        return "\n".join(map(str, self.items))
