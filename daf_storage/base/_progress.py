"""Progress of long work, in bytes: a bar in a notebook, or on stderr if that is a terminal."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, Protocol, TypeAlias

ShowProgress: TypeAlias = Literal["auto", "always", "never"]
"""``auto`` shows a bar in a notebook, and if stderr is a terminal."""

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
    in_notebook = is_notebook()
    wanted = show == "always" or (show == "auto" and (in_notebook or sys.stderr.isatty()))
    if not wanted or importlib.util.find_spec("tqdm") is None:
        yield _Silent()
        return
    with _bar_class(in_notebook=in_notebook)(
        total=total_bytes,
        desc=what,
        unit="B",
        unit_scale=True,
        file=sys.stderr,
        delay=0 if show == "always" else _DELAY_SECONDS,
    ) as bar:
        yield _Bar(bar)


def is_notebook() -> bool:
    """Return whether this process is the kernel of a notebook; IPython is not imported for that."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def _bar_class(*, in_notebook: bool) -> Any:
    """Return a bar of a terminal, or one of widgets: of text, where those are not installed."""
    if not in_notebook:
        return importlib.import_module("tqdm").tqdm
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that the widgets are missing
        return importlib.import_module("tqdm.auto").tqdm
