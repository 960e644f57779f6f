"""Groups of Zarr arrays to test with: strings, bytes, geometries, and sessions that know these."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import datafusion
import numpy as np
import pytest
import zarr
from zarr.core.dtype import VariableLengthBytes, VariableLengthUTF8

from daf_query import DafSession, connect, zarr_table

TEXT: Any = VariableLengthUTF8()
BYTES: Any = VariableLengthBytes()


def objects(values: Iterable[Any]) -> Any:
    """Return values as an array of objects."""
    return np.array([*values, None], dtype=object)[:-1]


def archived(path: Path) -> Path:
    """Return an archive of a directory, beside it."""
    return Path(shutil.make_archive(str(path), "zip", path))


def age() -> None:
    """Let all files be old enough for their next change to show in their times."""
    time.sleep(0.15)


def with_geometry(path: Path) -> DafSession:
    """Return a session of a group with the functions of geodatafusion."""
    session = connect(zarr_table(path))
    pytest.importorskip("geodatafusion").register_all(session.context)
    return session


def wkb(shapes: Iterable[str]) -> list[bytes]:
    """Return shapes, which are written as WKT, as they are stored."""
    context = datafusion.SessionContext()
    pytest.importorskip("geodatafusion").register_all(context)
    context.from_pydict({"shape": [*shapes]}, "shapes")
    query = "SELECT ST_AsBinary(ST_GeomFromText(shape)) AS b FROM shapes"
    found: list[bytes] = context.sql(query).to_pydict()["b"]
    return found


def ring(x: float, y: float, width: float, height: float) -> str:
    """Return the corners of a rectangle as WKT has them."""
    corners = [(x, y), (x + width, y), (x + width, y + height), (x, y + height), (x, y)]
    return f"({', '.join(f'{a} {b}' for a, b in corners)})"


def squares(corners: Iterable[tuple[float, float]], side: float) -> Any:
    """Return squares as they are stored, by their corners."""
    return objects(wkb(f"POLYGON({ring(x, y, side, side)})" for x, y in corners))


def store_of(path: Path, geometries: Any, chunk_rows: int) -> Path:
    """Store geometries and their numbers, uncompressed."""
    meta = zarr.open_group(path, mode="w", zarr_format=3).create_group("meta")
    options: Any = {"chunks": (chunk_rows,), "compressors": None}
    meta.create_array("bbox", shape=geometries.shape, dtype=BYTES, **options)[:] = geometries
    meta.create_array("n", data=np.arange(len(geometries)), **options)
    return path
