"""The data of the table in each form: a data set on disk, in place, in three parts, own tables.

``cell`` and ``gene`` have a column of each kind, with and without missing values; ``X`` and ``counts`` are
matrices of both.  What the oracles see is made of the same frames by pyarrow alone.
"""

from __future__ import annotations

import fcntl
import warnings
from collections.abc import Mapping
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pyarrow as pa
import scipy.sparse as sp

from daf_query import DafSession, connect
from daf_storage import DafReader, MemoryDaf, copy_all, export_h5ad, from_anndata, open_daf
from tests.conformance.cases import LARGE

PARTS = (9, 1, 14)
"""The cells of the members of a collection."""

N_CELLS = sum(PARTS)
N_LARGE = 200_000
LARGE_PARTS = (90_000, 20_000, 90_000)
LARGE_DONORS = [f"N{n}" for n in range(60)]
GENES = ["g1", "g2", "g3", "it's", "β.1", "g6"]


def cell_frame() -> pd.DataFrame:
    """Return the columns of cells, by their names."""
    i = np.arange(N_CELLS)
    f = np.where(i % 5 == 2, np.nan, (i * 7 % 24) / 4)
    edge = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, -1e-300, 2.5])[i % 8]
    day = pd.Series(pd.Timestamp("2023-12-30 22:30:00") + pd.to_timedelta(i * 31, unit="h"))
    return pd.DataFrame(
        {
            "b": i % 3 == 0,
            "day": day.mask(i % 6 == 4).to_numpy(),
            "donor": np.array(["N1", "N2", None, "N10", "n3"], object)[i * 3 % 5],
            "edge": edge,
            "f": f,
            "f32": (i * 5 % 11).astype("float32") / 2,
            "huge": np.array([1, 2**63 + 5, 7, 2**64 - 1, 2**53 + 1, 0], "uint64")[i % 6],
            "i16": (i * 997 % 4001 - 2000).astype("int16"),
            "i8": (i * 37 % 256 - 128).astype("int8"),
            "k": pd.array([None if n % 4 == 1 else n * 5 % 7 for n in i], "Int64"),
            "louvain": pd.Categorical(
                np.array(["T", "B", "NK", "Mono"])[i * 5 % 4], ["T", "NK", "Mono", "B"]
            ),
            "marker": np.array([*GENES, "none"], object)[i * 4 % 7],
            "maybe": pd.array([None if n % 7 == 3 else n % 2 == 0 for n in i], "boolean"),
            "order": i[::-1].copy(),
            "percent.mito": (i % 10) / 8,
            "s": np.array(["abc", "xabc", "", "Abcx", "été", "a_b%c", "zz top", "B"], object)[
                i % 8
            ],
            "stage": pd.Categorical(
                np.array(["child", "embryo", None, "adult"], object)[i * 3 % 4],
                ["embryo", "child", "adult"],
                ordered=True,
            ),
            "two words": i * i % 13,
            "u": (i * 1_000_003 % 4_294_967_291).astype("uint32"),
            "u8": (i * 11 % 256).astype("uint8"),
            "v": (i[::-1] * 178_956_970).astype("uint32"),
            "wide": np.array([2**53, 1, -(2**53)])[i % 3],
            "x": np.array([1, 2, 2, 3, 5, 5, 7, 8])[i % 8],
            "y": i // 6,
        },
        index=pd.Index([f"c{n:02d}" for n in i], name="name"),
    )


@cache
def large_cell_frame() -> pd.DataFrame:
    """Return the columns of 200,000 cells: sorted, in runs, and in no order."""
    rng = np.random.default_rng(11)
    i = np.arange(N_LARGE)
    random = rng.integers(0, 2**31, N_LARGE)
    days = pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(random % 1500, unit="D"))
    donors = np.array([*LARGE_DONORS, None], object)
    return pd.DataFrame(
        {
            "b": random % 3 == 0,
            "batch": i // 5000,
            "code": np.char.add("k", (random % 20_011).astype(str)).astype(object),
            "day": days.mask(random % 17 == 3).to_numpy(),
            "donor": donors[random % len(donors)],
            "f": np.where(random % 11 == 4, np.nan, random % 4096 / 8),
            "f32": (random % 997 / 4).astype("float32"),
            "k": pd.Series(random % 1000, dtype="Int64").mask(random % 7 == 2).array,
            "kind": pd.Categorical(
                np.array(["T", "B", "NK"])[random % 3], ["NK", "T", "B"], ordered=True
            ),
            "plate": np.char.add("plate ", (i // 400).astype(str)).astype(object),
            "total": i * 3,
            "u": (random * 2).astype("uint32"),
            "u8": (random % 256).astype("uint8"),
            "x": random % 10_007,
        },
        index=pd.Index(
            np.char.add("c", np.char.zfill(i.astype(str), 6)).astype(object), name="name"
        ),
    )


def large_gene_frame() -> pd.DataFrame:
    """Return donors, by which the large table is joined."""
    count = len(LARGE_DONORS)
    sex = np.array(["f", "m", None], object)[np.arange(count) % 3]
    frame = {"age": np.arange(count) * 7 % 90, "sex": sex, "is_old": np.arange(count) % 4 == 0}
    return pd.DataFrame(frame, index=pd.Index(LARGE_DONORS, name="name"))


def gene_frame() -> pd.DataFrame:
    """Return the columns of genes, by their names."""
    return pd.DataFrame(
        {
            "chrom": np.array(["1", None, "X", "2", "1", None], object),
            "is_marker": [True, False, True, True, False, False],
            "k": pd.array([2, None, 9, 5, None, 2], "Int64"),
            "x": [2, 5, 9, 2, 1, 7],
        },
        index=pd.Index(GENES, name="name"),
    )


def matrices() -> dict[str, np.ndarray]:
    """Return a sparse matrix of floats and a dense one of narrow integers."""
    rng = np.random.default_rng(7)
    shape = (N_CELLS, len(GENES))
    return {
        "X": rng.poisson(0.9, shape).astype("float32"),
        "counts": rng.integers(0, 200, shape).astype("uint8"),
    }


def as_arrow(frame: pd.DataFrame) -> pa.Table:
    """Return a frame as an axis is shown: entries, positions, columns; NaN is NULL."""
    columns = {"name": pa.array(frame.index), "index": pa.array(range(len(frame)), pa.int64())}
    for name in frame:
        values = frame[name]
        if isinstance(values.dtype, pd.CategoricalDtype):
            values = values.astype(object)
        columns[str(name)] = pa.array(values, from_pandas=True)
    return pa.table(columns)


def tables(path: str) -> Mapping[str, pa.Table]:
    """Return what each table of a path has, every column nullable."""
    parts = LARGE_PARTS if path in LARGE else PARTS
    cell, gene = _both_tables(is_large=path in LARGE)
    if not path.endswith("collection"):
        return {"cell": cell, "gene": gene}
    members = [f"m{n}" for n in range(1, len(parts) + 1)]
    cells = [
        _of_member(member, cell.slice(start, count))
        for member, start, count in zip(members, accumulate((0, *parts)), parts, strict=False)
    ]
    genes = [_of_member(member, gene) for member in members]
    return {"cell": pa.concat_tables(cells), "gene": pa.concat_tables(genes)}


@cache
def _both_tables(*, is_large: bool) -> tuple[pa.Table, ...]:
    return tuple(map(as_arrow, _frames(is_large=is_large)))


def _frames(*, is_large: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    if is_large:
        return large_cell_frame(), large_gene_frame()
    return cell_frame(), gene_frame()


def _of_member(name: str, table: pa.Table) -> pa.Table:
    positions = pa.array(range(len(table)), pa.int64())
    table = table.set_column(1, "index", positions)
    return table.add_column(0, "dataset", pa.array([name] * len(table)))


def entries(path: str) -> Mapping[str, pa.Table]:
    """Return the tables with the entries of matrices as columns: ``X['g1']``; without in ``shown``."""
    found = {**tables(path), "shown": tables(path)["cell"]}
    for name, values in matrices().items():
        kind = pa.int64() if values.dtype.kind == "u" else pa.from_numpy_dtype(values.dtype)
        for gene, column in zip(GENES, values.T, strict=True):
            found["cell"] = found["cell"].append_column(
                f"{name}['{gene}']", pa.array(column).cast(kind)
            )
    return found


def long_form(path: str) -> Mapping[str, pa.Table]:
    """Return a row for each element of the dense matrix, and for each that is not 0 of the other."""
    cells = tables(path)["cell"]
    found = {}
    for name, values in matrices().items():
        kept = np.ones(values.shape, bool) if name == "counts" else values != 0
        rows, columns = np.nonzero(kept)
        columns_of = {
            "cell": cells["name"].take(pa.array(rows)),
            "gene": pa.array(GENES).take(pa.array(columns)),
            "value": pa.array(values[kept]).cast(pa.int64() if name == "counts" else pa.float32()),
        }
        if path == "collection":
            columns_of = {"dataset": cells["dataset"].take(pa.array(rows)), **columns_of}
        found[f"long_{name.lower()}"] = pa.table(columns_of)
    return found


_FILES = {
    "directory": "data.daf.zarr",
    "dictionary": "data.daf.zarr",
    "packed": "packed.daf.zarr",
    "indexed": "indexed.daf.zarr",
    "archive": "data.daf.zarr.zip",
    "hdf5": "data.h5df",
    "h5ad": "data.h5ad",
}
_MEMBERS = ("m1.daf.zarr", "m2.daf.zarr.zip", "m3.h5df")
_OPTIONS: Mapping[str, Any] = {
    "h5ad": {"obs_is": "cell", "var_is": "gene"},
    "dictionary": {"categoricals": "dictionary"},
}


class Forms:
    """The data on disk, written when a path is first asked for.

    Parameters
    ----------
    folder
        Where to write.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, path: str) -> DafSession:
        """Return a new session over the data in a form."""
        form, is_large = path.removeprefix("large_"), path in LARGE
        if form == "own":
            session = connect(MemoryDaf(name="empty"))
            for name, table in tables("own").items():
                session.register(table, name)
            return session
        folder = self.folder / ("large" if is_large else "small")
        folder.mkdir(parents=True, exist_ok=True)
        if form == "collection":
            parts = LARGE_PARTS if is_large else PARTS
            members = zip(_MEMBERS, accumulate((0, *parts)), parts, strict=False)
            return connect(
                [
                    _written(folder / name, is_large=is_large, cells=slice(start, start + count))
                    for name, start, count in members
                ]
            )
        packed = form == "packed" or (form == "indexed" and is_large)
        found = _written(folder / _FILES[form], is_large=is_large, packed=packed)
        return connect(found, **_OPTIONS.get(form, {}))


def _written(
    path: Path, *, is_large: bool, packed: bool = False, cells: slice = slice(None)
) -> Path:
    """Return a path after writing there, once in all processes, what it is to have."""
    with (path.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            return path
        daf, made = _daf_of(cells, is_large=is_large), path.with_name(f"made-{path.name}")
        if path.suffix == ".h5ad":
            with warnings.catch_warnings(action="ignore"):
                export_h5ad(daf, made, obs_is="cell", var_is="gene", if_exists="replace")
        else:
            with open_daf(made, "w", packed=packed) as copy:
                copy_all(daf, copy)
        if path.name == _FILES["indexed"]:
            with connect(made, mode="r+") as session:
                for axis, names in _indexed_columns(is_large=is_large).items():
                    session.build_index(axis, ["name", *names], progress="never")
        return made.rename(path)


def _indexed_columns(*, is_large: bool) -> dict[str, list[str]]:
    if is_large:
        return {"cell": ["code", "plate", "donor", "x", "total"]}
    frames = {"cell": cell_frame(), "gene": gene_frame()}
    left_out = ("b", "is_marker", "maybe")
    return {axis: [str(n) for n in frame if n not in left_out] for axis, frame in frames.items()}


def _daf_of(cells: slice, *, is_large: bool) -> DafReader:
    obs, var = _frames(is_large=is_large)
    layers = {} if is_large else {key: values[cells] for key, values in matrices().items()}
    sparse = {"X": sp.csr_array(layers.pop("X"))} if layers else {}
    adata = anndata.AnnData(obs=obs[cells], var=var, layers=layers, **sparse)
    adata.obs_names.name = adata.var_names.name = None
    with warnings.catch_warnings(action="ignore"):
        return from_anndata(adata, name="data", obs_is="cell", var_is="gene")
