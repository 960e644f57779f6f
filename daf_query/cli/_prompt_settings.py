"""Settings of the prompt, which its commands change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

PromptMode: TypeAlias = Literal["table", "csv", "tsv", "json", "ndjson"]
"""How rows are shown."""

MODES: Final[tuple[PromptMode, ...]] = ("table", "csv", "tsv", "json", "ndjson")


@dataclass(slots=True)
class PromptSettings:
    """How the prompt shows rows; one of the few objects that change."""

    mode: PromptMode = "table"
    """How rows are shown."""
    timer: bool = False
    """Whether the time of each query is shown."""
    output: Path | None = None
    """The file for the rows of the next query."""
    max_rows: int | None = None
    """How many rows of a table are shown; None: as many as fit the pager or the screen, 0: all."""
    pager: str | None = None
    """The command that shows what is long."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Values of ``$name``."""
