"""Progress of long work, in bytes, shown as a bar on stderr if that is a terminal."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, Protocol, TypeAlias

ShowProgress: TypeAlias = Literal["auto", "always", "never"]
"""``auto`` shows a bar if stderr is a terminal."""

_DELAY_SECONDS = 0.5


class Progress(Protocol):
    """Something that counts bytes."""

    def add(self, n_bytes: int) -> None:
        """Count bytes that are done."""
        ...


class _Silent:
    """Counts nothing."""

    def add(self, n_bytes: int) -> None:
        """Do nothing."""


class _Bar:
    """A tqdm bar."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar

    def add(self, n_bytes: int) -> None:
        """Move the bar."""
        self._bar.update(n_bytes)


@contextmanager
def progress_bar(
    what: str, total_bytes: int | None, *, show: ShowProgress = "auto"
) -> Iterator[Progress]:
    """Show a bar of ``total_bytes`` while the block runs; only if it takes noticeably long.

    Without a total, the bytes are counted.

    Without the package tqdm (part of the extra ``anndata``) nothing is shown.
    """
    wanted = show == "always" or (show == "auto" and sys.stderr.isatty())
    if not wanted or importlib.util.find_spec("tqdm") is None:
        yield _Silent()
        return
    tqdm = importlib.import_module("tqdm").tqdm
    with tqdm(
        total=total_bytes,
        desc=what,
        unit="B",
        unit_scale=True,
        file=sys.stderr,
        delay=0 if show == "always" else _DELAY_SECONDS,
    ) as bar:
        yield _Bar(bar)
