"""Tests of what many questions leave behind: threads, connections, files and memory."""

from __future__ import annotations

import gc
import os
import stat
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from daf_query import DafSession, connect
from daf_storage import convert, export_h5ad, open_daf
from tests.support import data_set, every, served, wait_until

_QUERIES = 2_000 // every(10)
_SLICES = 500 // every(10)
_OPENINGS = 100 // every(10)
_FORMS = {
    "directory": "x.daf.zarr",
    "archive": "x.daf.zarr.zip",
    "hdf5": "x.h5df",
    "h5ad": "x.h5ad",
    "collection": "run*.daf.zarr",
    "remote": "",
}
_SLACK_BYTES = 32 << 20
"""What allocators may keep of freed memory."""


class Held(NamedTuple):
    """What this process holds of the operating system."""

    threads: int
    sockets: int
    files: int
    memory_bytes: int


def held_now() -> Held:
    """Return what this process holds."""
    gc.collect()
    links = [Path(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
    kinds = [link.stat().st_mode for link in links if link.exists()]
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    files = sum(stat.S_ISREG(kind) or stat.S_ISDIR(kind) for kind in kinds)
    return Held(threading.active_count(), sum(map(stat.S_ISSOCK, kinds)), files, resident)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with one data set in several forms."""
    folder = tmp_path_factory.mktemp("endurance")
    with open_daf(folder / "x.daf.zarr", "w") as daf:
        data_set(daf, cell={"name": 500, "age": np.arange(500) % 90}, gene=20)
        daf.set_vector("cell", "donor", [f"d{i % 7}" for i in range(500)])
        daf.set_matrix("cell", "gene", "X", np.arange(10_000.0).reshape(500, 20) % 11)
        export_h5ad(daf, folder / "x.h5ad", obs_is="cell", var_is="gene", X_is="X")
    for name in ("x.daf.zarr.zip", "x.h5df", *(f"run{number}.daf.zarr" for number in range(3))):
        convert(folder / "x.daf.zarr", folder / name, progress="never")
    return folder


def _ask(session: DafSession, number: int) -> None:
    condition = f"age > {number % 90} AND donor = 'd{number % 7}'"
    session.sql(f"SELECT name, age FROM cell WHERE {condition} LIMIT 3").to_pydict()


def _slice(session: DafSession, number: int) -> None:
    session.matrix("cell", "gene", "X", rows=f"age = {number % 90}", columns=["g1"]).to_numpy()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("form", _FORMS)
def test_nothing_grows_with_the_questions(stored: Path, form: str) -> None:
    """Neither within a session nor from one to the next; what `close` ends stays ended."""
    remote = served(stored / "x.daf.zarr") if form == "remote" else nullcontext()
    with remote as server:
        path = server.url if server else str(stored / _FORMS[form])

        def requested(queries: int, slices: int) -> None:
            with connect(path) as session:
                for number in range(queries):
                    _ask(session, number)
                for number in range(slices):
                    _slice(session, number)

        def opened(count: int) -> None:
            for _ in range(count):
                requested(1, 1)

        opened(5)
        requested(50, 20)
        before = held_now()
        share = len(_FORMS)
        requested(_QUERIES // share, _SLICES // share)
        opened(_OPENINGS // share)
        wait_until(lambda: held_now().threads <= before.threads)  # some are ending
        held = held_now()
        assert held.sockets <= before.sockets
        assert held.files <= before.files
        assert held.memory_bytes < before.memory_bytes + _SLACK_BYTES
