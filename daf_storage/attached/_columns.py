"""Columns of obs and var as vectors: what each offers, and those of which the vector says all.

The rules are those of an import (`daf_storage.anndata_rules`); what differs is that a vector here
is a view of the stored column.
"""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from daf_storage.anndata_rules import columns as rules
from daf_storage.attached import _elements as elements
from daf_storage.base import pandas
from daf_storage.data import Convention, required_array
from daf_storage.data import convention_attributes as attributes_of
from daf_storage.errors import CorruptDataError, DafError, UnsupportedInputError
from daf_storage.trees import ArrayInfo, MemoryArray, Node, StoredArray, Tree

Nodes = tuple[Node, ...]

UNREADABLE: Final = (UnsupportedInputError, ValueError, TypeError, pa.ArrowException)
"""What pandas and Arrow raise for a column that no vector has."""
_PANDAS_WITH_STRINGS: Final = 3


class Column(Protocol):
    """A column of obs or var, as a vector."""

    sources: tuple[str, ...]
    """The paths of what it consists of."""

    @property
    def problem(self) -> str:
        """Why Daf has no such vector; empty if it has."""
        ...

    @property
    def note(self) -> str:
        """What the vector does not have of the column; empty if nothing."""
        ...

    def rule(self) -> dict[str, Any]:
        """Return what restores the column from the vector."""
        ...

    def categories(self) -> pa.Array | None:
        """Return the categories of a categorical, in order; None for others."""
        ...

    def category_count(self) -> int | None:
        """Return how many categories there are, of a categorical; by metadata alone."""
        ...

    def has_companion(self) -> bool:
        """Return whether a second vector says what is missing, since empty strings are values."""
        ...

    def array(self, nodes: Nodes) -> StoredArray:
        """Return the vector."""
        ...

    def is_missing(self, nodes: Nodes) -> StoredArray:
        """Return the second vector."""
        ...

    def attributes(self) -> Mapping[str, str]:
        """Return the attributes of the vector."""
        ...


class WholeColumn:
    """What columns have in common of which the vector says all."""

    sources: tuple[str, ...]
    problem = ""
    note = ""

    def categories(self) -> pa.Array | None:
        """Return None: there are none."""
        return None

    def category_count(self) -> int | None:
        """Return None: there are none."""
        return None

    def has_companion(self) -> bool:
        """Return whether a second vector says what is missing."""
        return False

    def is_missing(self, nodes: Nodes) -> StoredArray:
        """Refuse: there is no second vector."""
        raise NotImplementedError(nodes)

    def attributes(self) -> Mapping[str, str]:
        """Return the attributes of the vector."""
        return {}


class PlainColumn(WholeColumn):
    """Numbers or strings without gaps: the stored array itself is the vector."""

    def __init__(self, path: str, info: ArrayInfo) -> None:
        self.sources = (path,)
        self._info = info

    def rule(self) -> dict[str, Any]:
        """Return what restores the column: which strings it has, of some versions of pandas."""
        return dict(_string_rule()) if self._info.storage_type.is_string else {}

    def array(self, nodes: Nodes) -> StoredArray:
        """Return the stored array."""
        return required_array(nodes[0], "", self.sources[0])


class HalfColumn(WholeColumn):
    """Numbers of half precision, widened."""

    def __init__(self, tree: Tree, path: str) -> None:
        self.sources = (path,)
        self._tree = tree

    def rule(self) -> dict[str, Any]:
        """Return what restores the column."""
        return {"kind": "number", "dtype": "float16"}

    def array(self, nodes: Nodes) -> StoredArray:  # noqa: ARG002 - read through its library
        """Return the numbers as Float32."""
        return elements.half_floats(self._tree, self.sources[0])


class NoVector(WholeColumn):
    """A column of values that no vector has; nothing of it is read."""

    def __init__(self, path: str, problem: str) -> None:
        self.sources = (path,)
        self.problem = problem

    def rule(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def array(self, nodes: Nodes) -> StoredArray:
        """Refuse: there is no such vector."""
        raise NotImplementedError(nodes)


@functools.cache
def _string_rule() -> Mapping[str, Any]:
    """Return the rule of strings as anndata reads them."""
    try:
        major = int(importlib.metadata.version("pandas").split(".")[0])
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return {}
    if major < _PANDAS_WITH_STRINGS:
        return {}
    frame = pandas(extra="anndata").DataFrame({"strings": np.array(["a"], dtype=object)})
    return rules.encode_column(frame["strings"]).rule


class BrokenColumn(WholeColumn):
    """A column whose metadata cannot be read; whoever uses it learns why."""

    def __init__(self, error: DafError) -> None:
        self.sources: tuple[str, ...] = ()
        self.error = error

    def rule(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def array(self, nodes: Nodes) -> StoredArray:  # noqa: ARG002 - there are none
        """Raise what is wrong."""
        raise self.error


class SeriesColumn(WholeColumn):
    """A column that pandas has, or that only anndata reads: as an import stores it."""

    def __init__(self, sources: tuple[str, ...], series: Callable[[], Any]) -> None:
        self.sources = sources
        self._series = functools.cache(series)

    def value(self) -> Any:
        """Return the column as pandas has it."""
        return self._series()

    @functools.cached_property
    def _encoded(self) -> Any:
        return rules.encode_column(self._series())

    @property
    def problem(self) -> str:  # type: ignore[override]  # looked for when it is asked for
        """Why Daf has no such vector."""
        try:
            _ = self._encoded
        except (*UNREADABLE, CorruptDataError) as error:
            return str(error)
        return ""

    @property
    def note(self) -> str:  # type: ignore[override]  # as above
        """What the vector does not have of the column."""
        return str(self._encoded.note)

    def rule(self) -> dict[str, Any]:
        """Return what restores the column."""
        return dict(self._encoded.rule)

    def categories(self) -> pa.Array | None:
        """Return the categories, if it is a categorical."""
        return None if self.problem else self._encoded.categories

    def category_count(self) -> int | None:
        """Return how many categories there are."""
        categories = self.categories()
        return None if categories is None else len(categories)

    def has_companion(self) -> bool:
        """Return whether a second vector says what is missing."""
        return self._encoded.is_missing is not None

    def array(self, nodes: Nodes) -> StoredArray:  # noqa: ARG002 - it was read
        """Return the vector."""
        return MemoryArray(lambda: self._encoded.values)

    def is_missing(self, nodes: Nodes) -> StoredArray:  # noqa: ARG002 - it was read
        """Return the second vector."""
        return MemoryArray(lambda: self._encoded.is_missing)

    def attributes(self) -> Mapping[str, str]:
        """Return that empty strings are missing, if they are."""
        is_so = self._encoded.empty_is_missing
        return attributes_of(Convention.EMPTY_IS_MISSING) if is_so else {}
