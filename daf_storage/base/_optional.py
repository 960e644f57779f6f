"""Optional packages, imported at first use, and the progress bars that some of them show.

The one place with imports inside functions: each says what to install if it is missing.  Progress
of long work is counted in bytes, and shown in a notebook, or on stderr if that is a terminal.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from daf_storage._lazy import HiddenPandas, metadata
from daf_storage.base._threads import ForkLock
from daf_storage.errors import MissingDependencyError

_SHOWING: Final = ForkLock()


def show_pandas() -> None:
    """Let pandas be imported, and pyarrow use it, where a command has hidden it."""
    with _SHOWING:  # whoever comes second waits until pyarrow knows of it
        if HiddenPandas in sys.meta_path:
            sys.meta_path.remove(HiddenPandas)
            pa.nulls(0).to_pandas()  # asks for it once more, as other conversions do not


def optional_import(module: str, *, extra: str) -> Any:
    """Return a module, or raise an error that names the extra to install.

    Raises
    ------
    MissingDependencyError
        The package is not installed.
    """
    try:
        if module in ("pandas", "anndata"):
            show_pandas()
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name and error.name.partition(".")[0] != package:
            raise
        raise MissingDependencyError(
            f"this needs the package {package!r}, which is not installed; "
            f"install it with: {install_command(extra)}"
        ) from error


def install_command(extra: str) -> str:
    """Return what installs an extra, from where this package itself was installed.

    pip notes that unless it was an index: a directory, such as a clone, an archive, or a
    repository.
    """
    try:
        noted = metadata.distribution("daf-query").read_text("direct_url.json")
        origin = json.loads(noted) if noted else None
        url, is_directory = ("", False) if origin is None else (origin["url"], "dir_info" in origin)
        if origin is not None and "vcs_info" in origin:
            url = f"{origin['vcs_info']['vcs']}+{url}@{origin['vcs_info']['commit_id']}"
    except (metadata.PackageNotFoundError, ValueError, KeyError, TypeError):
        return f'pip install ".[{extra}]" (in a clone of the repository)'  # it runs from one
    if is_directory:
        return f'pip install ".[{extra}]" (in {unquote(urlsplit(url).path)})'
    return f"pip install 'daf-query[{extra}]{f' @ {url}' if url else ''}'"


def pandas(*, extra: str = "pandas") -> Any:
    """Return pandas, which several extras bring."""
    return optional_import("pandas", extra=extra)


ShowProgress: TypeAlias = Literal["auto", "always", "never"]
"""``auto`` shows a bar in a notebook, and if stderr is a terminal."""

_DELAY_SECONDS = 0.5
_DOWNLOAD_SECONDS = 1.0


class Progress:
    """Something that counts bytes; it moves a bar of tqdm, if there is one."""

    def __init__(self, bar: Any = None) -> None:
        self._bar = bar

    def add(self, n_bytes: int) -> None:
        """Count bytes that are done."""
        if self._bar is not None:
            self._bar.update(n_bytes)


@contextmanager
def progress_bar(
    what: str, total_bytes: int | None, *, show: ShowProgress = "auto"
) -> Iterator[Progress]:
    """Show a bar of ``total_bytes`` while the block runs; only if it takes noticeably long.

    Without a total, the bytes are counted.

    Without the package tqdm (part of the extra ``anndata``) nothing is shown.
    """
    delay = 0 if show == "always" else _DELAY_SECONDS
    bar = None if show == "never" else _bar(show, total=total_bytes, desc=what, delay=delay)
    with DOWNLOADS.hidden(), nullcontext() if bar is None else bar:
        yield Progress(bar)


def _bar(show: ShowProgress, **how: Any) -> Any:
    """Return a bar of tqdm; None where nobody would see it."""
    in_notebook = is_notebook()
    is_seen = show == "always" or in_notebook or sys.stderr.isatty()
    if not is_seen or importlib.util.find_spec("tqdm") is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that the widgets are missing
        bar_class = importlib.import_module("tqdm.auto" if in_notebook else "tqdm").tqdm
    return bar_class(unit="B", unit_scale=True, file=sys.stderr, **how)


class Downloads:
    """Counts what is downloaded; a bar shows it once that takes more than a second.

    Requests that follow each other within a second are one download.  The bar is taken away
    whenever no request runs; there is none beside that of other work.
    """

    def __init__(self) -> None:
        self._lock = ForkLock()
        self._running = self._hidden = self._bytes = 0
        self._began = self._ended = 0.0
        self._bar: Any = None

    @contextmanager
    def request(self) -> Iterator[None]:
        """Note that a request runs as long as the block."""
        with self._lock:
            now = time.monotonic()
            if not self._running and now - self._ended > _DOWNLOAD_SECONDS:
                self._began, self._bytes = now, 0
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running, self._ended = self._running - 1, time.monotonic()
                if not self._running and self._bar is not None:
                    self._bar.close()
                    self._bar = None

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Show no bar during the block."""
        self._hidden += 1
        try:
            yield
        finally:
            self._hidden -= 1

    def add(self, n_bytes: int) -> None:
        """Count bytes that have come."""
        with self._lock:
            self._bytes += n_bytes
            is_long = time.monotonic() - self._began > _DOWNLOAD_SECONDS
            if self._bar is not None:
                self._bar.update(n_bytes)
            elif is_long and not self._hidden:
                self._bar = _bar("auto", desc="download", initial=self._bytes, leave=False)


DOWNLOADS: Final = Downloads()
"""Those of this process."""


def is_notebook() -> bool:
    """Return whether this process is the kernel of a notebook; IPython is not imported for that."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None
