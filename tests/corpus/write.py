"""Write the data of the corpus with the anndata that is installed: ``python -m tests.corpus.write FOLDER``.

It runs in an environment of its own for each version, under Python 3.7 and later, and imports
nothing but the data and anndata.  The folder gets ``FORM/KIND.h5ad`` (``.zarr``, ``.zarr.zip``) and
``expected.json``: what this anndata reads again, and the features that it refused to write.
"""

from __future__ import annotations

import importlib
import json
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import scipy
import zarr

from tests.corpus.data import KINDS, Kind, counts
from tests.corpus.description import describe

SOME = ("main", "types", "blocks")
"""The kinds that are written in every form."""

IS_ZARR_3 = int(zarr.__version__.split(".")[0]) >= 3
SHARDS = {"chunks": 4, "shards": 8}
BLOCK_SHARDS = {"chunks": 512, "shards": 1024}


def configure(**options: Any) -> bool:
    """Change settings of anndata where it has them; return whether it has all."""
    settings = getattr(anndata, "settings", None)
    names = [name for name in options if hasattr(settings, name)]
    for name in names:
        setattr(settings, name, options[name])
    return len(names) == len(options)


# Forms.


def h5ad(compression: str | None) -> Callable[[Any, str], None]:
    """Return how a file is written."""
    options = {} if compression is None else {"compression": compression}
    return lambda adata, path: adata.write(path, **options)


def zarr_directory(version: int, *, is_sharded: bool = False) -> Callable[[Any, str], None]:
    """Return how a directory is written."""

    def write(adata: Any, path: str) -> None:
        configure(zarr_write_format=version)
        configure(auto_shard_zarr_v3=is_sharded)
        write_zarr(adata, path)

    return write


def write_zarr(adata: Any, store: Any) -> None:
    """Write AnnData as Zarr; old versions want to know the chunks."""
    try:
        adata.write_zarr(store)
    except TypeError as error:
        if "chunks" not in str(error):
            raise
        adata.write_zarr(store, chunks=None)


def zarr_archive(version: int) -> Callable[[Any, str], None]:
    """Return how a ZIP is written, by zarr's own store."""

    def write(adata: Any, path: str) -> None:
        configure(zarr_write_format=version)
        configure(auto_shard_zarr_v3=False)
        store = (zarr.storage if IS_ZARR_3 else zarr).ZipStore(path, mode="w")
        write_zarr(adata, store)
        store.close()

    return write


def small_shards(adata: Any, path: str) -> None:
    """Write a directory whose arrays have several shards of several chunks."""
    configure(zarr_write_format=3)
    configure(auto_shard_zarr_v3=False)

    def write(
        write_elem: Any, store: Any, key: str, value: Any, *, dataset_kwargs: Any, **_: Any
    ) -> None:
        sizes = BLOCK_SHARDS if adata.n_obs > 100 else SHARDS
        is_array = isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "iufb"
        if (is_array and value.size) or hasattr(value, "indptr"):
            dataset_kwargs = {**dataset_kwargs, **{k: (v,) for k, v in sizes.items()}}
        write_elem(store, key, value, dataset_kwargs=dataset_kwargs)

    from anndata.experimental import write_dispatched

    group = zarr.open_group(path, mode="w", zarr_format=3)
    write_dispatched(group, "/", adata, callback=write)
    zarr.consolidate_metadata(group.store)


def forms() -> dict[str, tuple[str, Any, Any]]:
    """Return, by name, the ending of files, how they are written, and which kinds are."""
    everything = tuple(KINDS)
    found: dict[str, tuple[str, Any, Any]] = {
        "h5ad": (".h5ad", h5ad(None), everything),
        "h5ad-gzip": (".h5ad", h5ad("gzip"), SOME),
        "h5ad-lzf": (".h5ad", h5ad("lzf"), SOME),
        "zarr2": (".zarr", zarr_directory(2), everything),
        "zarr2-zip": (".zarr.zip", zarr_archive(2), ("main",)),
    }
    if configure(zarr_write_format=3):
        found["zarr3"] = (".zarr", zarr_directory(3), everything)
        found["zarr3-zip"] = (".zarr.zip", zarr_archive(3), ("main",))
        found["zarr3-small-shards"] = (".zarr", small_shards, SOME)
    if configure(auto_shard_zarr_v3=True):
        found["zarr3-sharded"] = (".zarr", zarr_directory(3, is_sharded=True), SOME)
    return found


def read(path: str) -> Any:
    """Read a file or a directory."""
    if path.endswith(".h5ad"):
        return anndata.read_h5ad(path)
    if not path.endswith(".zip"):
        return anndata.read_zarr(path)
    store = (zarr.storage if IS_ZARR_3 else zarr).ZipStore(path, mode="r")
    adata = anndata.read_zarr(store)
    store.close()
    return adata


# Files that are changed after they were written.


def backed(path: str) -> None:
    """Write a file, and change X and obs in it."""
    adata = KINDS["uns"].start()
    adata.write(path)
    adata = anndata.read_h5ad(path, backed="r+")
    adata.X[2:4, :] = np.ones((2, adata.n_vars), "f4")
    adata.obs["added"] = np.arange(adata.n_obs)
    adata.write()
    adata.file.close()


def appended(path: str) -> None:
    """Write a file, and add cells to its sparse X."""
    adata = KINDS["main"].start()
    whole = anndata.concat([adata, adata], index_unique="-")
    adata.write(path)
    with h5py.File(path, "r+") as file:
        opened, write_elem = _functions()
        opened(file["X"]).append(adata.X)
        del file["obs"]
        write_elem(file, "obs", whole.obs)


def _functions() -> tuple[Any, Any]:
    """Return what opens a sparse matrix in a file, and what writes a value, wherever they are."""
    places = (
        ("anndata.io", "sparse_dataset", "anndata.io", "write_elem"),
        ("anndata.experimental", "sparse_dataset", "anndata.experimental", "write_elem"),
        ("anndata._core.sparse_dataset", "SparseDataset", "anndata.experimental", "write_elem"),
        ("anndata._core.sparse_dataset", "SparseDataset", "anndata._io.h5ad", "write_attribute"),
    )
    for module, opened, other, write in places:
        try:
            return (
                getattr(importlib.import_module(module), opened),
                getattr(importlib.import_module(other), write),
            )
        except (ImportError, AttributeError):
            continue
    raise ImportError("sparse_dataset")


def concatenated(path: str) -> None:
    """Write two files, and put them together on disk."""
    from anndata.experimental import concat_on_disk

    folder = tempfile.mkdtemp()
    parts = []
    for number in range(2):
        adata = KINDS["main"].start()
        adata.obs["n"] = np.arange(adata.n_obs)
        adata.layers["dense"] = counts(adata.n_obs, adata.n_vars, "f4", number)
        parts.append(str(Path(folder) / f"{number}{Path(path).suffix}"))
        adata.write(parts[-1]) if path.endswith(".h5ad") else adata.write_zarr(parts[-1])
    concat_on_disk(parts, path, index_unique="-")
    shutil.rmtree(folder)


CHANGED = {"backed": backed, "appended": appended, "concatenated": concatenated}


# The corpus of one version.


class Corpus:
    """The files of one version of anndata."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._scratch = tempfile.mkdtemp()
        self.refused: dict[str, str] = {}
        self.described: dict[str, Any] = {}

    def write(self) -> None:
        """Write all, and what is expected of them."""
        for form, (ending, write, kinds) in forms().items():
            for kind in kinds:
                self._write_kind(form, kind, ending, write)
        for form, ending in (("h5ad", ".h5ad"), ("zarr2", ".zarr"), ("zarr3", ".zarr")):
            if form not in forms():
                continue
            configure(auto_shard_zarr_v3=False)
            configure(zarr_write_format=2 if form == "zarr2" else 3)
            for kind, change in CHANGED.items():
                if ending == ".zarr" and kind != "concatenated":
                    continue
                self._attempt(form, kind, ending, change)
        shutil.rmtree(self._scratch)

    def _write_kind(self, form: str, name: str, ending: str, write: Any) -> None:
        kind = KINDS[name]
        problem = self._problem(kind, [], write, ending)
        if problem is not None:
            self.refused[f"{form}/{name}"] = problem
            return
        features = list(kind.features)
        if self._problem(kind, features, write, ending) is None:
            self._attempt(form, name, ending, lambda path: write(kind.built(features), path))
            return
        features = []
        for feature in kind.features:
            problem = self._problem(kind, [feature], write, ending)
            if problem is None:
                features.append(feature)
            else:
                self.refused[f"{form}/{name}/{feature}"] = problem
        self._attempt(form, name, ending, lambda path: write(kind.built(features), path))

    def _problem(self, kind: Kind, features: list[str], write: Any, ending: str) -> str | None:
        """Return why features cannot be written and read again, or None."""
        path = str(Path(self._scratch) / f"x{ending}")
        _remove(path)
        try:
            adata = kind.built(features)
            write(adata, path)
            describe(read(path))
        except Exception as error:  # noqa: BLE001 - whatever this version says
            return _short(error)
        return None

    def _attempt(self, form: str, kind: str, ending: str, write: Callable[[str], None]) -> None:
        path = str(Path(self._folder) / form / f"{kind}{ending}")
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        try:
            write(path)
            self.described[f"{form}/{kind}"] = describe(read(path))
        except Exception as error:  # noqa: BLE001 - whatever this version says
            self.refused[f"{form}/{kind}"] = _short(error)
            _remove(path)

    def save(self) -> None:
        """Write what is expected; what several forms have in common stands there once."""
        expected: list[Any] = []
        places = {}
        for name, described in self.described.items():
            if described not in expected:
                expected.append(described)
            places[name] = expected.index(described)
        packages = {
            module.__name__: module.__version__ for module in (anndata, h5py, np, pd, scipy, zarr)
        }
        packages["python"] = sys.version.split()[0]
        recorded = {"packages": packages, "refused": self.refused, "places": places}
        text = json.dumps({**recorded, "described": expected})
        (Path(self._folder) / "expected.json").write_text(text)


def _short(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:200]


def _remove(path: str) -> None:
    if Path(path).is_dir():
        shutil.rmtree(path)
    elif Path(path).exists():
        Path(path).unlink()


def main() -> None:
    """Write the corpus of the version that is installed."""
    warnings.simplefilter("ignore")
    configure(allow_write_nullable_strings=True)
    configure(disallow_forward_slash_in_h5ad=False)
    corpus = Corpus(sys.argv[1])
    corpus.write()
    corpus.save()
    print(f"{anndata.__version__}: {len(corpus.described)} files, {len(corpus.refused)} refused")


if __name__ == "__main__":
    main()
