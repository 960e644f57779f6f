"""Tests of HDF5 files on full disks: refused before anything is written, and never broken."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from daf_storage import DafWriter, MemoryDaf, Packing, errors, open_daf, verify
from tests.support import contents, data_set, fill, filled

h5py = pytest.importorskip("h5py")

N = 400


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a data set in an HDF5 file."""
    path = tmp_path / "x.h5df"
    with open_daf(path, "w") as daf:
        data_set(daf, cell={"name": N, "age": np.arange(N)}, gene=["A", "B"])
    return path


def leave(monkeypatch: pytest.MonkeyPatch, free_bytes: int) -> None:
    """Let the disk have so much room."""
    real = os.fstatvfs

    def fstatvfs(descriptor: int) -> Any:
        found = real(descriptor)
        blocks = free_bytes // found.f_frsize
        return os.statvfs_result((*found[:3], blocks, blocks, *found[5:]))

    monkeypatch.setattr(os, "fstatvfs", fstatvfs)


def change(daf: DafWriter, what: str) -> None:
    """Make a change that needs about a megabyte."""
    wide = np.arange(N * 400.0)
    if what == "strings":
        daf.set_vector("cell", "s", [f"{i:03000}" for i in range(N)])
    elif what == "axis":
        daf.add_axis("many", [f"{i:0100}" for i in range(10_000)])
    elif what == "fill":
        with daf.empty_dense_matrix("cell", "wide", "m", "f8"):
            pass
    elif what == "sparse":
        daf.set_matrix("cell", "wide", "m", scipy.sparse.csc_array(wide.reshape(N, 400)))
    else:
        daf.set_matrix("cell", "wide", "m", wide.reshape(N, 400))


@pytest.mark.parametrize("what", ["strings", "axis", "fill", "sparse", "dense", "packed"])
def test_what_does_not_fit_is_refused(
    path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it is written; what was there stays, and the rest goes on when there is room again."""
    packed: Any = Packing() if what == "packed" else False
    with open_daf(path, "r+", packed=packed) as daf:
        daf.add_axis("wide", [str(i) for i in range(400)])
        leave(monkeypatch, 700_000)
        with pytest.raises(errors.StorageFullError, match="x.h5df: this needs [0-9,]+ bytes, and"):
            change(daf, what)
        daf.set_scalar("small", 1)
        leave(monkeypatch, 1 << 15)
        with pytest.raises(errors.StorageFullError, match="use another disk"):
            daf.set_scalar("other", 1)
        with pytest.raises(errors.StorageFullError):
            daf.delete_vector("cell", "age")
        leave(monkeypatch, 1 << 30)
        change(daf, what)
    with open_daf(path, "r+") as daf:
        assert daf.scalars_set() == {"small"}
        assert daf.get_np_vector("cell", "age").tolist() == list(range(N))
    assert verify(path) == []


def test_a_new_file_needs_room_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left of one that was refused."""
    leave(monkeypatch, 1000)
    for mode in ("w", "w+"):
        with pytest.raises(errors.StorageFullError, match="x.h5df: this needs"):
            open_daf(tmp_path / "x.h5df", mode)  # type: ignore[arg-type] # both are modes
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("more", [0, 999])
def test_an_order_that_does_not_fit_leaves_the_file_whole(tmp_path: Path, more: int) -> None:
    """Reading flushes what HDF5 has in memory, so the room is asked for before anything changes."""
    path = tmp_path / "x.h5df"
    filled(path).close()
    script = (
        "import resource, signal, sys\n"
        "from daf_storage import errors, open_daf\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)\n"
        "with open_daf(sys.argv[1], 'r+') as daf:\n"
        "    try:\n"
        "        daf.reorder_axis('cell', [2, 1, 0], progress='never')\n"
        "    except errors.StorageFullError as error:\n"
        "        print(error)\n"
    )
    limit = str(path.stat().st_size + more)
    done = subprocess.run(
        [sys.executable, "-c", script, str(path), limit], capture_output=True, text=True, check=True
    )
    assert "it was not written; free some space" in done.stdout
    with open_daf(path, "r+") as again:
        assert contents(again) == contents(fill(MemoryDaf()))
