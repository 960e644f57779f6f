"""Tests of what many questions leave behind: threads, connections, files and memory."""

from __future__ import annotations

import gc
import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from daf_query import DafSession, connect
from daf_storage import convert, export_h5ad, open_daf
from tests.support import data_set, every, served

_QUERIES = 2_000 // every(10)
_SLICES = 500 // every(10)
_OPENINGS = 100 // every(10)
_FORMS = ("directory", "archive", "hdf5", "h5ad", "collection", "remote")
_SLACK_BYTES = 32 << 20
"""What allocators may keep of freed memory."""


@dataclass(frozen=True)
class Held:
    """What this process holds of the operating system."""

    threads: int
    sockets: int
    files: int
    memory_bytes: int

    @classmethod
    def now(cls) -> Held:
        """Return what it holds; what is ending has a moment for it."""
        gc.collect()
        links = [Path(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
        kinds = [link.stat().st_mode for link in links if link.exists()]
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return cls(
            threading.active_count(),
            sum(map(stat.S_ISSOCK, kinds)),
            sum(map(stat.S_ISREG, kinds)) + sum(map(stat.S_ISDIR, kinds)),
            resident,
        )


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with one data set in several forms."""
    folder = tmp_path_factory.mktemp("endurance")
    with open_daf(folder / "x.daf.zarr", "w") as daf:
        data_set(daf, cell={"name": 500, "age": np.arange(500) % 90}, gene=20)
        daf.set_vector("cell", "donor", [f"d{i % 7}" for i in range(500)])
        daf.set_matrix("cell", "gene", "X", np.arange(10_000.0).reshape(500, 20) % 11)
        export_h5ad(daf, folder / "x.h5ad", obs_is="cell", var_is="gene", X_is="X")
    for name in ("x.daf.zarr.zip", "x.h5df"):
        convert(folder / "x.daf.zarr", folder / name, progress="never")
    for number in range(3):
        convert(folder / "x.daf.zarr", folder / f"run{number}.daf.zarr", progress="never")
    return folder


@contextmanager
def _source(folder: Path, form: str) -> Iterator[tuple[str, str]]:
    """Yield what is connected, and the name of the axis of cells in it."""
    names = {"directory": "x.daf.zarr", "archive": "x.daf.zarr.zip", "hdf5": "x.h5df"}
    if form == "remote":
        with served(folder / "x.daf.zarr") as server:
            yield server.url, "cell"
    elif form == "h5ad":
        yield str(folder / "x.h5ad"), "cell"
    elif form == "collection":
        yield str(folder / "run*.daf.zarr"), "cell"
    else:
        yield str(folder / names[form]), "cell"


def _ask(session: DafSession, axis: str, number: int) -> None:
    condition = f"age > {number % 90} AND donor = 'd{number % 7}'"
    session.sql(f"SELECT name, age FROM {axis} WHERE {condition} LIMIT 3").to_pydict()


def _slice(session: DafSession, axis: str, number: int) -> None:
    session.matrix(axis, "gene", "X", rows=f"age = {number % 90}", columns=["g1"]).to_numpy()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("form", _FORMS)
def test_nothing_grows_with_the_questions(stored: Path, form: str) -> None:
    """Neither within a session nor from one to the next; what `close` ends stays ended."""
    with _source(stored, form) as (path, axis):

        def opened(count: int) -> None:
            for number in range(count):
                with connect(path) as session:
                    _ask(session, axis, number)
                    _slice(session, axis, number)

        def requested(queries: int, slices: int) -> None:
            with connect(path) as session:
                for number in range(queries):
                    _ask(session, axis, number)
                for number in range(slices):
                    _slice(session, axis, number)

        opened(5)
        requested(50, 20)
        before = Held.now()
        share = len(_FORMS)
        requested(_QUERIES // share, _SLICES // share)
        opened(_OPENINGS // share)
        held, deadline = Held.now(), time.monotonic() + 20
        while held.threads > before.threads and time.monotonic() < deadline:
            time.sleep(0.05)
            held = Held.now()
        assert held.threads <= before.threads
        assert held.sockets <= before.sockets
        assert held.files <= before.files
        assert held.memory_bytes < before.memory_bytes + _SLACK_BYTES
