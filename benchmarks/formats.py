"""Convert one data set between all ordered pairs of formats, and print what each took.

    python benchmarks/formats.py [--small]

Every copy is compared with its source by `convert` itself, and here with what was put in at first;
the last block reads each format with h5py or zarr-python alone.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401 - h5py finds its filters when it is imported
import numpy as np
import scipy.sparse as sp
import zarr

from daf_storage import DafWriter, MemoryDaf, convert, open_daf
from tests.suites.examples import UMIS, contents, fill_served

FORMATS: dict[str, tuple[str, dict[str, Any]]] = {
    "v2": ("x.daf.zarr", {}),
    "v3": ("x.daf.zarr", {"zarr_format": 3}),
    "v3 packed": ("x.daf.zarr", {"packed": True}),
    "zip": ("x.daf.zarr.zip", {}),
    "zip packed": ("x.daf.zarr.zip", {"packed": True}),
    "zip#/a": ("x.dafs.zarr.zip#/a", {}),
    "h5df": ("x.h5df", {}),
    "h5df packed": ("x.h5df", {"packed": True}),
    "h5dfs#/a": ("x.h5dfs#/a", {}),
}


def add_data(daf: DafWriter, n_cells: int) -> None:
    """Add the data set that all implementations are tested with, and an axis of some size."""
    fill_served(daf)
    rng = np.random.default_rng(2)
    daf.add_axis("spot", [f"spot {i}" for i in range(n_cells)])
    daf.set_vector("spot", "x", rng.random(n_cells))
    daf.set_vector("spot", "kind", np.array(["a", "b"])[rng.integers(0, 2, n_cells)])
    counts = sp.random_array((n_cells, 4), density=0.3, rng=rng, format="csc")
    daf.set_matrix("spot", "gene", "counts", counts)


def main() -> None:
    """Convert and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true", help="a tenth of the data, three formats")
    is_small = parser.parse_args().small
    n_cells, step = (2_000, 4) if is_small else (20_000, 1)
    formats = dict([*FORMATS.items()][::step])
    memory = MemoryDaf()
    add_data(memory, n_cells)
    expected = contents(memory)
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for name, (path, style) in formats.items():
            (Path(folder) / name.replace("/", "-")).mkdir()
            paths[name] = f"{folder}/{name.replace('/', '-')}/{path}"
            with open_daf(paths[name], "w+", **style) as daf:
                assert isinstance(daf, DafWriter)
                add_data(daf, n_cells)
        print("milliseconds from (rows) to (columns); 'ok': equal to what was put in")
        print(f"{'':<12}" + "".join(f"{name:>14}" for name in formats))
        line: list[str] = []
        for number, (one, other) in enumerate(product(formats, repeat=2)):
            target = Path(folder) / f"to {number}"
            target.mkdir()
            path, style = FORMATS[other]
            start = time.perf_counter()
            convert(paths[one], f"{target}/{path}", progress="never", **style)
            seconds = time.perf_counter() - start
            with open_daf(f"{target}/{path}") as copy:
                assert contents(copy) == expected
            line.append(f"{1e3 * seconds:8.0f} ok")
            if len(line) == len(formats):
                print(f"{one:<12}" + "".join(f"{cell:>14}" for cell in line))
                line.clear()
        print("read by other libraries")
        for name, path in paths.items():
            print(f"  {name:<12}{read_by_others(path):<12} equal")


def read_by_others(path: str) -> str:
    """Compare a matrix and a vector with what a foreign library reads; return its name."""
    container, _, group = path.partition("#/")
    prefix = f"{group}/" if group else ""
    if "h5df" in container:
        with h5py.File(container) as file:
            assert file[f"{prefix}matrices/cell/gene/UMIs"][:].T.tolist() == UMIS.tolist()
            assert file[f"{prefix}vectors/cell/type"].asstr()[:].tolist()[0] == "Bcell"
        return "h5py"
    store = zarr.storage.ZipStore(container) if container.endswith(".zip") else container
    root: Any = zarr.open_group(store, path=group, mode="r")
    assert root["matrices/cell/gene/UMIs"][:].T.tolist() == UMIS.tolist()
    assert root["vectors/cell/type"][:].tolist()[0] == "Bcell"
    with open_daf(path) as daf:
        assert np.array_equal(root["vectors/spot/x"][:], daf.get_np_vector("spot", "x"))
    return f"zarr v{root.metadata.zarr_format}"


if __name__ == "__main__":
    main()
