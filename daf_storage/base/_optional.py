"""Packages that only some users need, imported when first used.

The one place with imports inside functions: each says what to install if it is missing.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

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
            f"install it with: pip install 'daf-query[{extra}]'"
        ) from error


def pandas(*, extra: str = "pandas") -> Any:
    """Return pandas, which several extras bring."""
    return optional_import("pandas", extra=extra)
