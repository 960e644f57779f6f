"""Tests of files that another program cuts while they are open: an error, and no SIGBUS.

Each case runs in a process of its own, since what is tested used to kill it; the processes are
forks of one that has imported the libraries.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from daf_storage import H5df, errors, open_daf
from daf_storage.stores import MmapZipStore
from tests.support import data_set, filled, there

LENGTH = 60_000

CHILD = """
import json, os, shutil, sys, traceback, warnings
import datafusion, h5py, pyarrow.dataset, scipy.sparse
from daf_query import connect
from daf_storage import DafError, open_daf
from daf_storage.spi import Span
warnings.simplefilter("ignore")

def uses_of(path, mode):
    daf = open_daf(path, mode)
    session = connect(daf)
    held, span = daf.open_vector("cell", "number"), Span(0, 60_000)
    matrix = lambda name: session.matrix("cell", "gene", name, columns=[0])
    sql = lambda query: session.sql(query).to_pylist()
    return {
        "vector": lambda: int(daf.get_np_vector("cell", "number").sum()),
        "vector that is held": lambda: int(held.read(span).sum()),
        "strings": lambda: daf.get_np_vector("cell", "text").tolist().count("a"),
        "sparse matrix": lambda: int(daf.get_np_matrix("cell", "gene", "sparse").sum()),
        "sql": lambda: sql("SELECT sum(number) AS s FROM cell"),
        "sql of strings": lambda: sql("SELECT count(*) AS n FROM cell WHERE text = 'b'"),
        "slice": lambda: int(matrix("dense").to_numpy().sum()),
        "sparse slice": lambda: int(matrix("sparse").to_scipy().sum()),
    }

def attempt(use):
    try:
        return use()
    except DafError as error:
        return f"refused: {error}"

def damage():
    if cut == "copied over" and os.path.isdir(path):
        shutil.copytree(other, path, dirs_exist_ok=True)
    elif cut == "copied over":
        shutil.copyfile(other, path)
    elif os.path.isdir(path):
        for folder, _, names in os.walk(path):
            for name in names:
                if not name.startswith(".z"):
                    shrink(os.path.join(folder, name))
    else:
        shrink(path)

def shrink(file):
    size = os.path.getsize(file)
    if size > 10_000:
        os.truncate(file, 0 if cut == "empty" else size // 2)

def run():
    uses, others = uses_of(path, mode), uses_of(other, "r")
    before = {name: use() for name, use in uses.items()}
    after = {name: use() for name, use in others.items()}
    damage()
    found = {name: [attempt(use), attempt(use)] for name, use in uses.items()}
    with open(output, "w") as file:
        json.dump({"before": before, "after": after, "found": found}, file)

for line in sys.stdin:
    path, other, mode, cut, output = json.loads(line)
    if os.fork() == 0:
        try:
            run()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""
SUFFIXES = ("daf.zarr", "daf.zarr.zip", "h5df")
CASES = [
    (suffix, mode, cut)
    for suffix in SUFFIXES
    for mode, cut in (("r", "empty"), ("r", "half"), ("r", "copied over"), ("r+", "empty"))
]


def make(path: Path, *, seed: int) -> None:
    """Write a data set whose arrays have several pages each."""
    random = np.random.default_rng(seed)
    numbers, dense = random.integers(0, 1000, LENGTH), random.integers(0, 3, (LENGTH, 2))
    text = np.array(["a", "b", "c"])[random.integers(0, 3, LENGTH)]
    with open_daf(path, "w") as daf:
        data_set(daf, cell={"name": LENGTH, "number": numbers, "text": text}, gene=["A", "B"])
        daf.set_matrix("cell", "gene", "dense", dense)
        daf.set_matrix("cell", "gene", "sparse", sp.csc_array(dense))


@pytest.fixture(scope="module")
def cutter() -> Iterator[subprocess.Popen[str]]:
    """Return a process that cuts a file in a fork of it for each line that it reads."""
    command = [sys.executable, "-c", CHILD]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        yield process


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_a_file_that_shrinks_or_is_copied_over(
    tmp_path: Path, cutter: subprocess.Popen[str], case: tuple[str, str, str]
) -> None:
    """Whatever was read before, and however: what it was, what it is by now, or an error of ours."""
    suffix, mode, cut = case
    path, other, output = (tmp_path / name for name in (f"x.{suffix}", f"other.{suffix}", "found"))
    for seed, made in enumerate((path, other)):
        make(made, seed=seed)
    arguments = [str(path), str(other), mode, cut, str(output)]
    print(json.dumps(arguments), file=cutter.stdin, flush=True)
    assert there(cutter.stdout).readline() == "0\n"
    printed = json.loads(output.read_text())
    refused = []
    for use, answers in printed["found"].items():
        for answer in answers:
            is_refused = str(answer).startswith(f"refused: {path}: ")
            refused.append(is_refused)
            assert is_refused or answer in (printed["before"][use], printed["after"][use]), use
    if cut == "empty" or (cut, suffix) == ("copied over", "daf.zarr.zip"):
        assert all(refused), printed["found"]
    assert any(refused) or cut == "copied over"


def test_a_reservation_in_an_archive_that_was_cut(tmp_path: Path) -> None:
    """Completing or publishing it reads what was filled in: the file is looked at before."""
    path, cut = tmp_path / "x.zip", "another program has cut it or written"
    with MmapZipStore(path, "w") as store, store.transaction() as changes:
        store.append("a", b"1")
        large = store.reserve("large", 3_000_000)
        large.array[:] = 1
        changes.reserve("other", 3_000_000)[:] = 1
        os.truncate(path, 100)
        with pytest.raises(errors.CorruptDataError, match=cut):
            store.complete(large)
        with pytest.raises(errors.CorruptDataError, match=cut):
            changes.publish("other", replace=False)
        os.truncate(path, 0)
        with pytest.raises(errors.CorruptDataError, match="entry 'a'"):
            store.get("a")


def test_an_archive_that_lost_the_last_bytes_of_an_entry(tmp_path: Path) -> None:
    """Fewer than its header is longer than the shortest one: no zeros stand in for them."""
    path = tmp_path / "x.zip"
    with MmapZipStore(path, "w") as store:
        store.append("a", bytes(range(1, 101)))
    with MmapZipStore(path) as store:
        stop = path.read_bytes().index(bytes(range(1, 101))) + 100
        os.truncate(path, stop - 5)
        with pytest.raises(errors.CorruptDataError, match="another program has cut it or written"):
            store.get("a")


def test_an_archive_that_moves_is_read_on(tmp_path: Path) -> None:
    """Moved, deleted or replaced by another file: the mapped one is as it was."""
    path = tmp_path / "x.zip"
    with MmapZipStore(path, "w") as store:
        store.append("a", b"12345")
    with MmapZipStore(path) as store:
        path.rename(tmp_path / "y.zip")
        assert store.get("a") == b"12345"
        path.write_bytes(b"")
        assert store.get("a") == b"12345"
        (tmp_path / "y.zip").unlink()
        assert store.get("a") == b"12345"


def test_other_bytes_under_an_open_archive(tmp_path: Path) -> None:
    """A header that was looked at before is looked at again when the file was written to."""
    path = tmp_path / "x.zip"
    for data in (b"old", b"new"):
        with MmapZipStore(tmp_path / f"{data.decode()}.zip", "w") as store:
            store.append("a", data)
    shutil.copyfile(tmp_path / "old.zip", path)
    with MmapZipStore(path) as store:
        assert store.get("a") == b"old"
        shutil.copyfile(tmp_path / "new.zip", path)
        with pytest.raises(errors.CorruptDataError, match="header and the directory differ"):
            store.get("a")
        shutil.copyfile(tmp_path / "old.zip", path)
        assert store.get("a") == b"old"


def test_an_hdf5_file_that_grew_and_was_cut_again(tmp_path: Path) -> None:
    """Once its new length was seen, less is too little, even if it is as long as in the beginning."""
    path, copy = tmp_path / "x.h5df", tmp_path / "copy.h5df"
    filled(path).close()
    length = path.stat().st_size
    shutil.copyfile(path, copy)
    with H5df(copy, "r+") as daf:
        daf.set_vector("cell", "more", np.arange(3.0))
        daf.set_matrix("cell", "cell", "large", np.ones((3, 3)))
    assert copy.stat().st_size > length
    reader = H5df(path)
    with path.open("r+b") as file:  # in place, as rsync --inplace does
        file.write(copy.read_bytes())
    assert reader.get_np_vector("cell", "more").tolist() == [0, 1, 2]
    (array,) = reader.open_vector("cell", "type").arrays().values()
    os.truncate(path, length)
    with pytest.raises(errors.CorruptDataError, match="bytes"):
        array.read_strings()
