"""Optional packages, imported at first use, and the progress bars that some of them show.

The one place with imports inside functions: each says what to install if it is missing.  Progress
of long work is counted in bytes, and shown in a notebook, or on stderr if that is a terminal.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote, urlsplit

from daf_storage.errors import MissingDependencyError


def optional_import(module: str, *, extra: str) -> Any:
    """Return a module, or raise an error that names the extra to install.

    Raises
    ------
    MissingDependencyError
        The package is not installed.
    """
    imported = sys.modules.get(module)
    if imported is not None and not getattr(
        getattr(imported, "__spec__", None), "_initializing", False
    ):
        return imported  # much faster than to ask for it again, which each node of a file does
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.split(".", 1)[0]
        if error.name and error.name.split(".", 1)[0] != package:
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
        noted = importlib.metadata.distribution("daf-query").read_text("direct_url.json")
        origin = json.loads(noted) if noted else None
        url, is_directory = ("", False) if origin is None else (origin["url"], "dir_info" in origin)
        if origin is not None and "vcs_info" in origin:
            url = f"{origin['vcs_info']['vcs']}+{url}@{origin['vcs_info']['commit_id']}"
    except (importlib.metadata.PackageNotFoundError, ValueError, KeyError, TypeError):
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
    in_notebook = is_notebook()
    wanted = show == "always" or (show == "auto" and (in_notebook or sys.stderr.isatty()))
    if not wanted or importlib.util.find_spec("tqdm") is None:
        yield Progress()
        return
    with _bar_class(in_notebook=in_notebook)(
        total=total_bytes,
        desc=what,
        unit="B",
        unit_scale=True,
        file=sys.stderr,
        delay=0 if show == "always" else _DELAY_SECONDS,
    ) as bar:
        yield Progress(bar)


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
