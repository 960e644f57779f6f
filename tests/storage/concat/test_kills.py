"""Tests of what is left where the program that concatenates is killed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from daf_storage import concatenate, open_daf, repair, verify
from tests.support import contents, data_set

_KILLED_AT: Final = (0.3, 0.7, 0.9)
"""Parts of all operations on files after which the program is killed."""

_WRITER: Final = '''
"""Concatenate in a fork of this process for each folder, and kill it at an operation on files."""
import os, signal, sys
import h5py, numpy, pyarrow, scipy.sparse  # once, before the forks
from daf_storage import concatenate

folders, parts = sys.argv[2:], [float(part) for part in sys.argv[1].split()]
EVENTS = ("os.rename", "os.mkdir", "os.remove", "os.rmdir")  # how often files are read varies


def forked(folder, killed_at, report):
    count = 0

    def seen(event, arguments):
        nonlocal count
        if event in EVENTS and folder in str(arguments[:2]):
            count += 1
            if count >= killed_at > 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(seen)
    target = next(f"{folder}/{name}" for name in os.listdir(folder) if name.startswith("all."))
    concatenate(
        target, "cell", [f"{folder}/one.daf.zarr", f"{folder}/two.daf.zarr"],
        if_exists="replace", join="outer", progress="never",
    )
    os.write(report, count.to_bytes(4, "little"))
    os._exit(0)


total = 0
for folder, part in zip(folders, parts, strict=True):
    reading, report = os.pipe()
    child = os.fork()
    if not child:
        forked(folder, round(part * total), report)
    os.close(report)
    _, status = os.waitpid(child, 0)
    if not part:
        total = int.from_bytes(os.read(reading, 4), "little")
    assert os.WIFSIGNALED(status) == bool(part), (part, total, status)
    os.close(reading)
'''


def test_a_killed_program_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    """Whole, and the sources as they were; the next run ends well, and repairing clears the rest."""
    name = "all.daf.zarr"
    first = tmp_path / "0"
    first.mkdir()
    for source, cells in (("one", ["a", "b"]), ("two", ["c"])):
        with open_daf(first / f"{source}.daf.zarr", "w") as daf:
            data_set(daf, cell={"name": cells, "age": range(len(cells))}, gene=["g", source])
            daf.set_matrix("cell", "gene", "x", [[1, 2]] * len(cells))
    with open_daf(first / name, "w") as daf:
        daf.set_scalar("old", 1)
    before = contents(open_daf(first / name))
    folders = [first]
    copies = [tmp_path / str(number + 1) for number in range(len(_KILLED_AT))]
    folders += [Path(shutil.copytree(first, folder)) for folder in copies]
    parts = " ".join(map(str, (0.0, *_KILLED_AT)))
    writer = [sys.executable, "-c", _WRITER, parts, *map(str, folders)]
    subprocess.run(writer, check=True, timeout=60)
    with open_daf(first / name) as daf:
        after = contents(daf)
    assert after != before
    for folder in folders[1:]:
        repair(folder / name)
        with open_daf(folder / name) as daf:
            assert contents(daf) in (before, after), folder.name
        assert verify(folder / name) == []
        sources = [folder / "one.daf.zarr", folder / "two.daf.zarr"]
        concatenate(folder / name, "cell", sources, if_exists="replace", join="outer")
        with open_daf(folder / name) as daf:
            assert contents(daf) == after
        assert sorted(path.name for path in folder.iterdir()) == sorted(
            [name, "one.daf.zarr", "two.daf.zarr"]
        )
