"""Lines and JSON about the sidecar of a data set."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import daf_storage
from daf_storage import DafReader
from daf_storage.spi import is_in_place, visible_name

if TYPE_CHECKING:
    from daf_storage import SidecarStatus


def sidecar_line(status: SidecarStatus) -> str:
    """Return where a sidecar is, how large, and what it has."""
    head = f"{status.path}, {status.size_bytes:,} bytes"
    if not status.is_used:
        return f"{head}, not used: {status.problem}"
    parts = [path for path in status.properties if path.startswith("matrices/")]
    vectors = sum(path.startswith("vectors/") for path in status.properties)
    if vectors:
        parts.append(f"{vectors:,} columns")
    parts += [f"index of {name}" for name in status.indexes]
    return f"{head}: {', '.join(parts) or 'the entries of axes'}"


def described_sidecar(daf: DafReader) -> str:
    """Return the lines of ``daf info`` about the sidecar of a data set; empty without one."""
    status = _status(daf)
    return "" if status is None else f"\nsidecar: {visible_name(sidecar_line(status))}"


def as_dict(daf: DafReader) -> dict[str, Any]:
    """Return what the JSON of ``daf info`` has about the sidecar; empty without one."""
    status = _status(daf)
    return {} if status is None else {"sidecar": asdict(status)}


def _status(daf: DafReader) -> SidecarStatus | None:
    """Return the status; its module is imported for files that are read in place only."""
    return daf_storage.sidecar_status(daf) if is_in_place(daf) else None
