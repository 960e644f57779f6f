"""Measure an epoch of shuffled batches beside scipy in memory, annbatch and scDataset, in one run.

    python benchmarks/training.py           50,000 cells x 2,000 genes, 5 million non-zeros
    python benchmarks/training.py --small   all of it on little data, to see that it works

The data come from a seeded generator, and are written once into a scratch folder (--folder): a data set, an h5ad file and
an AnnData in Zarr, sharded by annbatch where that is installed.  Every loader reads the same cells, those of a split, once,
in blocks of --block neighbours and batches of 256; the sums of all rows and of their positions are compared before a time counts.
A line has cells per second of processor time (of all threads), and of elapsed time, and how many times those of the loader
ours are.  annbatch needs Python 3.12 (and is faster with zarrs, which is used if installed); where a package is missing, its lines say so.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anndata as ad
import numpy as np
import pandas as pd
import scipy.sparse as sp
import zarr

import daf_query
import daf_storage

warnings.filterwarnings("ignore")
if find_spec("zarrs"):  # as annbatch advises
    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})

BATCH = 256
FETCH = 16
"""Batches that are read at once."""

Pair = tuple[Any, Any]
"""Rows as CSR or tensors, and their positions."""


@dataclass(frozen=True)
class Data:
    """Where the data are."""

    folder: Path
    cells: int
    genes: int
    per_cell: int

    @property
    def daf(self) -> Path:
        """A data set, with both layouts."""
        return self.folder / "x.daf.zarr"

    @property
    def h5ad(self) -> Path:
        """An uncompressed h5ad file."""
        return self.folder / "x.h5ad"

    @property
    def zarr(self) -> Path:
        """An AnnData in Zarr, sharded if annbatch wrote it."""
        return self.folder / ("sharded.zarr" if find_spec("annbatch") else "x.zarr")


def prepared(data: Data) -> Data:
    """Write what is not there yet."""
    data.folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    shape, density = (data.cells, data.genes), data.per_cell / data.genes
    values = sp.random(*shape, density, format="csr", dtype="float32", rng=rng)
    values.data = np.ceil(values.data * 9)
    obs = pd.DataFrame(
        {"type": rng.choice(["B", "NK", "T"], data.cells)},
        index=[f"cell_{number}" for number in range(data.cells)],
    )
    var = pd.DataFrame(index=[f"gene_{number}" for number in range(data.genes)])
    whole = ad.AnnData(sp.csr_matrix(values), obs=obs, var=var)
    if not data.h5ad.exists():
        whole.write_h5ad(data.h5ad)
    if not data.daf.exists():
        daf_storage.import_h5ad(data.h5ad, data.daf, obs_is="obs", var_is="var", progress="never")
    if not data.zarr.exists():
        _write_zarr(whole, data.zarr)
    return data


def _write_zarr(whole: ad.AnnData, path: Path) -> None:
    if find_spec("annbatch"):
        import annbatch

        annbatch.write_sharded(zarr.open_group(path, mode="w", zarr_format=3), whole)
    else:
        whole.write_zarr(path)


# The loaders: each yields the rows and the positions of every batch.


def ours(path: Path, split: dict[str, float], block: int) -> Callable[[], Iterator[Pair]]:
    """Return our batches, as CSR."""
    db = daf_query.connect(str(path))
    sampler = db.sampler("obs", split=split, stratify="type")["train"]
    blocks = sampler.blocks(
        db.matrix("obs", "var", "X"),
        batch_rows=BATCH, block_rows=block, fetch_batches=FETCH, form="sparse",
    )  # fmt: skip
    return lambda: ((batch["x"], batch["index"]) for batch in blocks)


def in_memory(path: Path, entries: Any) -> Callable[[], Iterator[Pair]]:
    """Return batches of a matrix that is in memory, whatever it took to read it."""
    values = sp.csr_array(ad.read_h5ad(path).X)
    order = np.random.default_rng(0).permutation(entries)
    rows = [order[start : start + BATCH] for start in range(0, order.size, BATCH)]
    return lambda: ((values[each], each) for each in rows)


def with_annbatch(path: Path, block: int) -> Callable[[], Any]:
    """Return batches of annbatch, of its own sampler over all cells."""
    import annbatch

    chunks = BATCH * FETCH // block
    requests = annbatch.samplers.RandomSampler(block, chunks, BATCH, rng=np.random.default_rng(0))
    loader = annbatch.Loader(batch_sampler=requests, return_index=True, preload_to_gpu=False)
    group = zarr.open_group(path, mode="r")
    loader.add_adata(ad.AnnData(X=ad.io.sparse_dataset(group["X"])))
    return lambda: ((batch["X"], batch["index"]) for batch in loader)


def with_backed_scdataset(path: Path, entries: Any, block: int) -> Callable[[], Any]:
    """Return batches of scDataset over anndata's backed mode, as its documentation has it."""
    import scdataset

    whole = ad.read_h5ad(path, backed="r")
    whole.obs["position"] = np.arange(whole.n_obs)
    dataset = scdataset.scDataset(
        whole, scdataset.BlockShuffling(block, indices=entries), BATCH, fetch_factor=FETCH,
        fetch_transform=lambda part: part.to_memory(),
    )  # fmt: skip
    return lambda: ((part.X, part.obs["position"].to_numpy()) for part in dataset)


# How it is measured.


@dataclass(frozen=True)
class Epoch:
    """What an epoch gave, and took."""

    sums: tuple[float, int, int]
    cpu: float
    elapsed: float

    def rates(self) -> tuple[float, float]:
        """Return cells per second: of processor time, and elapsed."""
        return self.sums[2] / max(self.cpu, 1e-9), self.sums[2] / max(self.elapsed, 1e-9)


def epoch_of(make: Callable[[], Iterable[Pair]], repeats: int) -> Epoch:
    """Return the fastest of several epochs."""
    epochs = []
    for _ in range(repeats):
        cpu, elapsed = time.process_time(), time.perf_counter()
        total, positions, count = 0.0, 0, 0
        for values, index in make():
            stored = values.data if sp.issparse(values) else values.values().numpy()
            total += float(stored.sum(dtype=np.float64))
            positions += int(np.asarray(index).sum())
            count += len(index)
        took = time.process_time() - cpu, time.perf_counter() - elapsed
        epochs.append(Epoch((total, positions, count), *took))
    return min(epochs, key=lambda epoch: epoch.cpu)


def main() -> None:
    """Measure all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--block", type=int, default=16)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "daf-training")
    options = parser.parse_args()
    size, repeats = ((700, 200, 10), 1) if options.small else ((50_000, 2_000, 100), 3)
    if options.small:
        with tempfile.TemporaryDirectory() as folder:
            run(prepared(Data(Path(folder), *size)), options.block, repeats)
        return
    run(prepared(Data(options.folder / "x".join(map(str, size)), *size)), options.block, repeats)


def run(data: Data, block: int, repeats: int) -> None:
    """Print a line for each loader."""
    split = {"train": 0.8, "val": 0.2}
    db = daf_query.connect(str(data.daf))
    sampler = db.sampler("obs", split=split, stratify="type")["train"]
    in_place = daf_query.connect(str(data.zarr)).sampler("obs", split=split, stratify="type")
    assert np.array_equal(in_place["train"].indices, sampler.indices)
    print(f"{data.cells:,} cells x {data.genes:,} genes; blocks of {block}, batches of {BATCH}\n")
    print(f"{'':44} {'cells/s of CPU':>15} {'cells/s':>12}   ours / theirs, of CPU")
    mapped = epoch_of(ours(data.daf, split, block), repeats)
    sharded = epoch_of(ours(data.zarr, split, block), repeats)
    everything = epoch_of(ours(data.daf, {"train": 1.0}, block), repeats)
    show("ours, data set", mapped)
    show("ours, data set, all cells", everything)
    show("ours, AnnData in Zarr in place", sharded)
    for name, package, make, beside in (
        ("scipy, in memory, no blocks", "scipy", lambda: in_memory(data.h5ad, sampler.indices), mapped),
        ("annbatch, its sampler, all cells", "annbatch", lambda: with_annbatch(data.zarr, block), everything),
        ("scDataset over a backed h5ad", "scdataset", lambda: with_backed_scdataset(data.h5ad, sampler.indices, block), mapped),
    ):  # fmt: skip
        if find_spec(package) is None:
            print(f"{name:44} {package} is not installed")
            continue
        found = epoch_of(make(), repeats if package == "scipy" else min(repeats, 2))
        assert found.sums == beside.sums, (name, found.sums, beside.sums)
        show(name, found, beside)


def show(name: str, epoch: Epoch, beside: Epoch | None = None) -> None:
    """Print a line."""
    by_cpu, by_clock = epoch.rates()
    ratio = "" if beside is None else f"{beside.rates()[0] / by_cpu:8.1f} x"
    print(f"{name:44} {by_cpu:15,.0f} {by_clock:12,.0f} {ratio}")


if __name__ == "__main__":
    main()
