"""Lazy doors: names and modules that are imported when they are first used.

A *door* is the ``__init__`` of a package, or a module that only exports names of others.  With
`lazy_names` it costs nothing until a name is taken from it.  A *lazy module* stands for a package
that is expensive to import, and that many programs never need.

Must not import anything expensive, nor anything of the package: the doors import it first.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

# type checkers let others import these too
__all__ = ["ds", "metadata", "numcodecs", "pacsv", "pc", "pq", "sp", "zarr"]

Door: TypeAlias = tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]
"""The ``__getattr__`` and the ``__dir__`` of a module (PEP 562), and its ``__all__``."""


def stubbed_names(door: str) -> Door:
    """Return what makes a package a door of the names that its stub, ``__init__.pyi``, imports.

    Type checkers read the stub, so that each name is written once.

    Examples
    --------
    >>> "open_daf" in stubbed_names("daf_storage")[2]
    True
    """
    stub = ast.parse(pkgutil.get_data(door, "__init__.pyi") or b"")
    origins: dict[str, tuple[str, ...]] = {}
    for node in stub.body:
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            origins[module] = (*origins.get(module, ()), *(alias.name for alias in node.names))
    return lazy_names(door, origins)


def lazy_names(door: str, origins: Mapping[str, tuple[str, ...]]) -> Door:
    """Return what makes a module a door of names of other modules.

    Parameters
    ----------
    door
        Its ``__name__``.
    origins
        The modules that have the names, and the names of each.

    Examples
    --------
    >>> getattr_of_door, dir_of_door, every = lazy_names("math", {"fractions": ("Fraction",)})
    >>> getattr_of_door("Fraction")
    <class 'fractions.Fraction'>
    >>> "Fraction" in dir_of_door(), every
    (True, ['Fraction'])
    """
    modules = {name: module for module, names in origins.items() for name in names}

    def getattr_of_door(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {door!r} has no attribute {name!r}", name=name, obj=door)
        value = getattr(importlib.import_module(modules[name]), name)
        setattr(sys.modules[door], name, value)
        return value

    def dir_of_door() -> list[str]:
        own = (name for name in vars(sys.modules[door]) if name.startswith("__"))
        return sorted({*own, *modules})

    return getattr_of_door, dir_of_door, sorted(modules)


class _LazyModule(ModuleType):
    """A module that is imported when an attribute of it is first used."""

    def __getattr__(self, name: str) -> Any:
        if "imported" not in vars(self):
            self.imported = importlib.import_module(self.__name__)
        return getattr(self.imported, name)

    def __repr__(self) -> str:
        return f"<lazy module {self.__name__!r}>"


def lazy_module(name: str) -> Any:
    """Return a module that is imported when an attribute of it is first used.

    For a package that is always installed; for others there is `optional_import`.

    Examples
    --------
    >>> lazy_module("zoneinfo")
    <lazy module 'zoneinfo'>
    >>> lazy_module("fractions").Fraction(1, 2)
    Fraction(1, 2)
    """
    return _LazyModule(name)


if TYPE_CHECKING:
    from importlib import metadata

    import numcodecs
    import pyarrow.compute as pc
    import pyarrow.csv as pacsv
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq
    import scipy.sparse as sp
    import zarr
else:
    pc, pacsv, ds, pq = (
        lazy_module(f"pyarrow.{name}") for name in ("compute", "csv", "dataset", "parquet")
    )
    modules = ("importlib.metadata", "numcodecs", "scipy.sparse", "zarr")
    metadata, numcodecs, sp, zarr = map(lazy_module, modules)


class HiddenPandas:
    """Lets no import find pandas while it is in ``sys.meta_path``; `show_pandas` takes it away.

    Where pandas is installed, pyarrow imports it for the first value that it converts, which takes
    0.2 s, although few commands need it.
    """

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        """Raise what an import raises of a package that is not installed."""
        if name == "pandas":
            raise ModuleNotFoundError("pandas is hidden", name=name)


def stubbed_modules(package: str, stub: str) -> dict[str, Any]:
    """Return the modules that a stub of a package imports, by the names that it gives them.

    Examples
    --------
    >>> stubbed_modules("daf_query.cli", "_later.pyi")["pa"]
    <lazy module 'pyarrow'>
    """
    modules: dict[str, Any] = {}
    for node in ast.parse(pkgutil.get_data(package, stub) or b"").body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            parent = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            modules |= {
                each.asname or each.name: lazy_module(parent + each.name) for each in node.names
            }
    return modules
