"""Measure the peak memory of a slice and of a profile; `matrix.py --memory` runs it.

    python benchmarks/matrix_memory.py slice|profile PATH

does one of them in this process, which imports nothing else, and prints its figures as JSON.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Self

import daf_query
import daf_storage

MEGABYTE = 1e6
TYPES = 30


def status(name: str) -> int:
    """Return a figure of this process from Linux, in bytes."""
    found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return 1024 * int(found.group(1)) if found else 0


class OwnMemory:
    """Watches how much memory of its own the process takes; mapped pages are the file's."""

    def __init__(self) -> None:
        self.most = status("RssAnon")
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_done.wait(0.002):
            self.most = max(self.most, status("RssAnon"))


def child(what: str, path: str) -> None:
    """Do one task in this process and print its result's size and its peak memory."""
    db = daf_query.connect(path)
    db.sql("SELECT count(*) FROM cell").collect()
    size = 0
    with OwnMemory() as memory:
        if what == "slice":
            part = db.matrix("cell", "gene", "X", rows="age > 60").values()
            size = part.data.nbytes + part.indices.nbytes + part.indptr.nbytes
        else:
            made = db.profile("cell", "gene", "X", by="type", progress="never")
            size = made.to_arrow_table().nbytes
    # ru_maxrss would begin with that of the parent; VmHWM is the same figure of this process alone.
    print(json.dumps({"result": size, "own": memory.most, "resident": status("VmHWM")}))


def in_child(what: str, path: Path) -> dict[str, int]:
    """Do one task in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), what, str(path)]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=path.parent).stdout
    found: dict[str, int] = json.loads(printed)
    return found


def write_sparse_file(scratch: Path, *, is_small: bool) -> Path:
    """Return a data set with a dense matrix of zeros that is nearly all holes of its file."""
    cells, genes = (2_000, 500) if is_small else (200_000, 25_000)
    path = scratch / f"holes-{cells}x{genes}.daf.zarr"
    if path.exists():
        return path
    part = path.with_name(f"{path.name}.part.daf.zarr")
    shutil.rmtree(part, ignore_errors=True)
    daf: Any = daf_storage.open_daf(str(part), "w")
    daf.add_axis("cell", [f"cell_{number}" for number in range(cells)])
    daf.add_axis("gene", [f"gene_{number}" for number in range(genes)])
    daf.set_vector("cell", "type", [f"T{number % TYPES:02}" for number in range(cells)])
    daf.close()
    matrix = part / "matrices" / "cell" / "gene" / "X"
    matrix.mkdir(parents=True)
    metadata: dict[str, Any] = {"zarr_format": 2, "dtype": "<f4", "order": "C"}
    metadata |= {"shape": [genes, cells], "chunks": [genes, cells]}
    metadata |= {"compressor": None, "fill_value": None, "filters": None}
    (matrix / ".zarray").write_text(json.dumps(metadata))
    with (matrix / "0.0").open("wb") as file:
        file.truncate(4 * genes * cells)
    part.rename(path)
    return path


def measure(scratch: Path, path: Path, *, is_small: bool) -> None:
    """Print how much memory a slice and a profile take, and how much they may take.

    The own memory of the process is what counts for a slice, whose rows stay mapped until it ends;
    for a profile the pages of the file count too.
    """
    holes = write_sparse_file(scratch, is_small=is_small)
    apparent_gb = (holes / "matrices" / "cell" / "gene" / "X" / "0.0").stat().st_size / 1e9
    print(f"{'peak memory':32} {'result':>10} {'own':>10} {'with pages':>11} {'allowed':>10}")
    for what, task, data_set in (
        ("slice: cells older than 60", "slice", path),
        (f"profile by {TYPES} types", "profile", path),
        (f"profile of {apparent_gb:.0f} GB by {TYPES} types", "profile", holes),
    ):
        found = in_child(task, data_set)
        is_slice = task == "slice"
        allowed = 2 * found["result"] + 150 * MEGABYTE if is_slice else 500 * MEGABYTE
        is_met = found["own" if is_slice else "resident"] <= allowed
        figures = (found["result"], found["own"], found["resident"], allowed)
        print(
            f"{what:32} {'  '.join(f'{figure / MEGABYTE:6.0f} MB' for figure in figures)}   "
            f"{'met' if is_met else 'MISSED'}"
        )


if __name__ == "__main__":
    child(*sys.argv[1:])
