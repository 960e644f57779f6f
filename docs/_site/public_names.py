"""The public names of the packages: what `__all__` lists, and the public members of its classes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

import daf_query
import daf_storage
from daf_storage import errors

PACKAGES: Final = (daf_storage, daf_query)
_OURS: Final = ("daf_storage", "daf_query")

INNER_MEMBERS: Final = {
    "DafError": "sentence",
    "DafReader": """
        axis_identity check_labels find_matrix given_axis cached_entries cached_strings
        open_orientations
        string_array vector_identity
    """,
    "DafServer": "close serve_forever shutdown",
    "DafWriter": "add_entries change check_orders new_matrix new_vector put_scalar",
    "MatrixSlice": """
        data_sets of_rows of_several take_rows
    """,
    "Packing": "chunks",
    "QueryResult": "is_described rows",
    "Report": "changed kept lost refuse_losses renamed warn",
    "TableDataset": """
        column_not_found data_version first fragments needed open_table pieces
        predicate_of readable rows_of rtree scan scanner_of
        with_matrix_columns with_view
    """,
    "ZarrTable": "rtree source_of",
}
"""Members without an underscore that other packages of this project call, and users do not."""


@dataclass(frozen=True, slots=True)
class PublicName:
    """A name that users import, with the members that its page shows."""

    package: str
    name: str
    value: object

    @property
    def full_name(self) -> str:
        """The name with its package."""
        return f"{self.package}.{self.name}"

    @property
    def category(self) -> str:
        """What it is, as autodoc calls it."""
        if inspect.ismodule(self.value):
            return "module"
        if inspect.isclass(self.value):
            return "exception" if issubclass(self.value, BaseException) else "class"
        return "function" if inspect.isroutine(self.value) else "data"

    @property
    def members(self) -> tuple[str, ...]:
        """The public members of a class that this project defines, and no public base class has."""
        if not isinstance(self.value, type):
            return ()
        return tuple(name for name in dir(self.value) if self._is_documented(name))

    def _is_documented(self, name: str) -> bool:
        if name.startswith("_") or not isinstance(self.value, type) or self._is_inner(name):
            return False
        owner = next((base for base in self.value.__mro__ if name in vars(base)), None)
        if owner is None or not is_ours(owner):
            return False
        return owner is self.value or owner not in _owners_elsewhere(self.value)

    def _is_inner(self, name: str) -> bool:
        assert isinstance(self.value, type)  # noqa: S101  # for the type checker
        return any(
            name in INNER_MEMBERS.get(owner.__name__, "").split() for owner in self.value.__mro__
        )


def is_ours(value: object) -> bool:
    """Say whether a class or function is of this project."""
    return (getattr(value, "__module__", None) or "").partition(".")[0] in _OURS


def public_names() -> Iterator[PublicName]:
    """Yield the public names of both packages."""
    for package in PACKAGES:
        for name in package.__all__:
            yield PublicName(package.__name__, name, getattr(package, name))


def error_names() -> list[str]:
    """Return the names of the errors and warnings of `daf_storage.errors`, but for the root."""
    return [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type)
        and issubclass(value, Exception)
        and value.__module__ == errors.__name__
        and name != "DafError"
    ]


@cache
def _owners_elsewhere(value: type) -> frozenset[type]:
    """Return the classes whose members stand on the page of a public base class of this one."""
    public = {name.value for name in public_names() if isinstance(name.value, type)}
    bases = [base for base in value.__mro__[1:] if base in public]
    return frozenset(owner for base in bases for owner in base.__mro__)
