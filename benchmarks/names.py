"""Time and memory of axes with very many entries: add them, read them back, verify, import.

    python benchmarks/names.py --entries 20_000_000                 a directory
    python benchmarks/names.py --entries 20_000_000 --suffix .h5df  HDF5; .daf.zarr.zip, an archive
    python benchmarks/names.py --small                              the same steps on little data

Each line is a step in a process of its own, its time, and the peak of the memory of that process:
all of it, the names that it was given too, and the pages of files that it has mapped.  Names are 12
bytes each.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa

import daf_storage

WIDTH = 12
STEPS = ("add", "read", "find", "verify", "import")
_BLOCK = 1 << 20
_SMALL = 100_000


def names(count: int) -> pa.StringArray | pa.LargeStringArray:
    """Return names of equal length in no order, without an object for each."""
    text = np.full((count, WIDTH), ord("c"), np.uint8)
    for start in range(0, count, _BLOCK):
        numbers = np.arange(start, min(start + _BLOCK, count)) * 61 % count
        for place in range(WIDTH - 1):
            text[start : start + _BLOCK, WIDTH - 1 - place] = ord("0") + numbers % 10
            numbers //= 10
    kind = pa.string() if count * WIDTH < 2**31 else pa.large_string()
    offsets = np.arange(count + 1, dtype=np.int32 if kind == pa.string() else np.int64)
    offsets *= WIDTH
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    return pa.Array.from_buffers(kind, count, buffers)


def write_h5ad(path: Path, count: int) -> None:
    """Write an h5ad file of observations and nothing else, in blocks."""
    found = names(count)
    with h5py.File(path, "w") as file:
        file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
        for part, length in (("obs", count), ("var", 0)):
            group = file.create_group(part)
            group.attrs.update({"encoding-type": "dataframe", "encoding-version": "0.2.0"})
            group.attrs["_index"] = "_index"
            group.attrs.create("column-order", [], dtype=h5py.string_dtype())
            index = group.create_dataset("_index", (length,), h5py.string_dtype())
            index.attrs.update({"encoding-type": "string-array", "encoding-version": "0.2.0"})
            for start in range(0, length, _BLOCK):
                block = found.slice(start, _BLOCK).to_numpy(zero_copy_only=False)
                index[start : start + len(block)] = block


def run_step(step: str, path: Path, count: int) -> None:
    """Do one step, and print its time and the peak of memory."""
    given = names(count) if step == "add" else []
    started = time.perf_counter()
    if step == "add":
        with daf_storage.open_daf(path, "w") as daf:
            daf.add_axis("cell", given)
    elif step == "verify":
        found = daf_storage.verify(path, progress="never")
        assert not found, found
    elif step == "import":
        target = path.with_name(f"imported{path.suffixes[0]}{''.join(path.suffixes[1:])}")
        daf_storage.import_h5ad(path.with_name("names.h5ad"), target, obs_is="cell")
    else:
        with daf_storage.open_daf(path) as daf:
            if step == "read":
                assert len(daf.get_pa_vector("cell", "name")) == count
            else:
                last = f"c{count - 61:011}"
                assert daf.axis_indices("cell", [last]).size == 1
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"{step:8}{seconds:8.1f} s{peak / 1e9:8.2f} GB")


def main() -> None:
    """Run the steps one after the other, each in its own process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=20_000_000)
    parser.add_argument("--suffix", default=".daf.zarr")
    parser.add_argument("--steps", default="add,read,find,verify")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--step", nargs=2, metavar=("STEP", "PATH"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    count = _SMALL if given.small else given.entries
    if given.step:
        run_step(given.step[0], Path(given.step[1]), count)
        return
    steps = STEPS if given.small else given.steps.split(",")
    with tempfile.TemporaryDirectory(prefix="names-") as folder:
        path = Path(folder) / f"names{given.suffix}"
        print(f"{count:,} names of {WIDTH} bytes, {given.suffix}", flush=True)
        if "import" in steps:
            write_h5ad(path.with_name("names.h5ad"), count)
        for step in steps:
            options = ["--entries", str(count), "--step", step, str(path)]
            subprocess.run([sys.executable, __file__, *options], check=True)


if __name__ == "__main__":
    main()
