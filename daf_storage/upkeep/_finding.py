"""A problem that `verify` lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Level: TypeAlias = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something in a data set that is not as it should be."""

    level: Level
    """An ``error`` makes data wrong or unreadable; a ``warning`` is untidy, or hampers others."""
    path: str
    """What it is about: a property, an entry of the archive, or empty for all of it."""
    problem: str
    """What is wrong, in a sentence."""

    def __str__(self) -> str:
        return f"{self.level}: {self.path}: {self.problem}" if self.path else self._short()

    def _short(self) -> str:
        return f"{self.level}: {self.problem}"
