"""Packages that only some users need, imported when first used.

The one place with imports inside functions: each says what to install if it is missing.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import sys
from typing import Any
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
