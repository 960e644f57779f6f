"""Indexes of data sets that are read in place: they are built in the sidecar, of its copies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from daf_query.index._build import build_index
from daf_query.scan import NAME
from daf_storage import (
    DafReader,
    DafWriter,
    ShowProgress,
    SidecarStatus,
    errors,
    open_daf,
    refresh_sidecar,
    sidecar_status,
    write_sidecar,
)
from daf_storage.upkeep import sidecar_indexes

IndexNames: TypeAlias = Mapping[str, Sequence[str] | None]
"""Which vectors are to be found by value, by their axis; None for those with many strings."""


def accelerated(
    daf: DafReader,
    matrices: str | Sequence[str],
    *,
    indexes: IndexNames | None = None,
    path: str | None = None,
    max_bytes: int | None = None,
    progress: ShowProgress = "auto",
) -> SidecarStatus:
    """Write the sidecar of a data set with indexes in it; see `daf_storage.write_sidecar`."""
    wanted = _with_known(daf, indexes or {})
    columns = [(axis, name) for axis, names in wanted.items() for name in names or [NAME]]
    for axis, name in columns:
        _check(daf, axis, name)
    status = write_sidecar(
        daf, matrices, columns=columns, path=path, max_bytes=max_bytes, progress=progress
    )
    return _indexed(daf, status, wanted, progress)


def refreshed(daf: DafReader, *, progress: ShowProgress = "auto") -> SidecarStatus:
    """Make a sidecar fit its source again, with the indexes that it had."""
    wanted = _grouped(sidecar_indexes(daf))
    status = refresh_sidecar(daf, progress=progress)
    missing = {
        axis: [name for name in names or () if f"{axis}/{name}" not in status.indexes]
        for axis, names in wanted.items()
        if daf.has_axis(axis)
    }
    return _indexed(daf, status, missing, progress)


def _check(daf: DafReader, axis: str, name: str) -> None:
    if not daf.has_axis(axis):
        raise errors.axis_not_found(daf.location, axis, daf.axes_set())
    if name != NAME:
        daf.vector_info(axis, name)


def _with_known(daf: DafReader, indexes: IndexNames) -> IndexNames:
    """Return which indexes are wanted, and which are there: the sidecar is written again."""
    status = sidecar_status(daf)
    known = _grouped(status.indexes if status is not None and status.is_used else ())
    wanted: dict[str, Sequence[str] | None] = dict(indexes)
    for axis, names in known.items():
        if wanted.get(axis, ()) is not None:
            wanted[axis] = list(dict.fromkeys([*(wanted.get(axis) or ()), *(names or ())]))
    return wanted


def _grouped(indexes: Iterable[str]) -> IndexNames:
    groups: dict[str, list[str]] = {}
    for index in indexes:
        axis, _, name = index.partition("/")
        groups.setdefault(axis, []).append(name)
    return dict(groups)


def _indexed(
    daf: DafReader, status: SidecarStatus, wanted: IndexNames, progress: ShowProgress
) -> SidecarStatus:
    if any(names is None or names for names in wanted.values()):
        with open_daf(status.path, "r+") as sidecar:
            if isinstance(sidecar, DafWriter):
                for axis, names in wanted.items():
                    present = (
                        None
                        if names is None
                        else [name for name in names if _has(sidecar, axis, name)]
                    )
                    build_index(sidecar, axis, present, progress=progress)
    return sidecar_status(daf) or status


def _has(daf: DafReader, axis: str, name: str) -> bool:
    return daf.has_axis(axis) and (name == NAME or name in daf.vectors_set(axis))
