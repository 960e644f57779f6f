"""The interface of systems: a system prepares a data set, opens it, and answers tasks."""

from __future__ import annotations

import importlib
import importlib.metadata
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from benchmarks._works import Work, queries


@dataclass(frozen=True)
class SystemInfo:
    """How a system is listed."""

    name: str
    title: str
    adapter: str
    """Module and class of the adapter."""
    kinds: tuple[str, ...]
    """Which kinds of data it takes."""
    environment: str | None = None
    """The environment of its own in which it runs."""


@dataclass(frozen=True)
class Place:
    """A data set, and where it is."""

    data: Any
    """A `MatrixData` or a `TableData`."""
    source: Path
    """What the generator wrote."""
    folder: Path
    """What the system prepared."""


class NotOfferedError(Exception):
    """The system does not do this."""


class System(ABC):
    """An adapter; each task is a method of its name."""

    modules: ClassVar[tuple[str, ...]] = ()
    """What it imports; the time of that is not part of any other."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Whose versions are noted."""
    in_place: ClassVar[bool] = False
    """Whether it reads the source, so that nothing is to be prepared."""

    data: Any
    """The data set that is open."""

    def load(self) -> None:
        """Import what is measured."""
        for module in self.modules:
            importlib.import_module(module)

    def versions(self) -> dict[str, str]:
        """Return the versions of its packages."""
        return {name: importlib.metadata.version(name) for name in self.packages}

    def prepare(self, place: Place) -> None:
        """Write what it reads into an empty folder; what is read in place is never prepared."""
        raise NotOfferedError(place.data.title)

    def paths(self, place: Place) -> list[Path]:
        """Return what it reads."""
        return [place.source if self.in_place else place.folder]

    @abstractmethod
    def open(self, place: Place) -> None:
        """Open what was prepared."""

    def run(self, work: Work) -> Any:
        """Return the answer of a task: a sparse matrix, an array, an Arrow table or a data frame."""
        task = getattr(self, work.task, None)
        if task is None:
            raise NotOfferedError
        return task()

    @abstractmethod
    def close(self) -> None:
        """Release what is open."""


class SqlSystem(System):
    """A system whose tasks on tables are the same SQL as those of all others."""

    @abstractmethod
    def sql(self, query: str) -> Any:
        """Return the answer of a query."""

    def run(self, work: Work) -> Any:
        """Return the answer."""
        if self.data.kind == "table":
            return self.sql(queries(self.data.name)[work.task])
        return super().run(work)
