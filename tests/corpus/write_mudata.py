"""Write a MuData in several forms: ``python -m tests.corpus.write_mudata FOLDER``.

Runs under each version of mudata, so it uses nothing newer than Python 3.8 and nothing of this
project.  ``expected.json`` has what the version itself reads in each file.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import scipy.sparse

try:
    mudata: Any = importlib.import_module("mudata")
except ImportError:  # of those who only collect the modules of the tests
    mudata = None


def modality(cells: list[str], genes: list[str], seed: int) -> Any:
    """Return an AnnData with something in each part."""
    rng = np.random.RandomState(seed)
    counts = scipy.sparse.csr_matrix(rng.poisson(1, (len(cells), len(genes))).astype(np.float32))
    obs = pd.DataFrame(
        {"batch": pd.Categorical(rng.choice(["a", "b"], len(cells))), "n": np.arange(len(cells))},
        index=cells,
    )
    adata = anndata.AnnData(counts, obs, pd.DataFrame({"size": np.arange(len(genes))}, index=genes))
    adata.layers["counts"] = counts.toarray()
    adata.obsm["X_pca"] = rng.normal(size=(len(cells), 2))
    adata.uns["method"] = "pca"
    return adata


def examples() -> dict[str, Any]:
    """Return MuData by what they are: cells that all have, that some have, and shared genes."""
    cells, genes = [f"c{n}" for n in range(8)], ["CD3E", "CD8A", "GNLY"]
    same = mudata.MuData(
        {"rna": modality(cells, genes, 1), "prot": modality(cells, ["pCD4", "pCD8"], 2)}
    )
    same.obs["donor"] = pd.Categorical(list("xyxyxyxy"))
    same.obsm["X_mofa"] = np.arange(16.0).reshape(8, 2)
    same.uns["release"] = 3
    other = mudata.MuData(
        {"rna": modality(cells, genes, 1), "atac": modality(["c3", "c1", "x9"], ["p1", "p2"], 3)}
    )
    found = {"same": same, "other": other}
    if "axis" in mudata.MuData.__init__.__code__.co_varnames:
        batches = {"b1": modality(cells[:3], genes, 4), "b2": modality(["d1", "d2"], genes, 5)}
        found["genes"] = mudata.MuData(batches, axis=1)
    return found


def columns_of(frame: Any) -> dict[str, list[str]]:
    """Return the columns of a DataFrame in which nothing is missing, as text."""
    complete = [name for name in frame.columns if not frame[name].isna().any()]
    return {name: [str(value) for value in frame[name]] for name in complete}


def matrices_of(parts: Any) -> dict[str, Any]:
    """Return matrices by their keys; from anndata 0.13 on, X is a layer without one."""
    named = {key: parts[key] for key in parts if key is not None}
    dense = {k: v.toarray() if hasattr(v, "toarray") else v for k, v in named.items()}
    return {key: np.asarray(value).tolist() for key, value in dense.items()}


def described(mdata: Any) -> dict[str, Any]:
    """Return what is in a MuData as JSON has it."""
    modalities = {}
    for name, adata in mdata.mod.items():
        modalities[name] = {
            "obs_names": list(adata.obs_names),
            "var_names": list(adata.var_names),
            "obs": columns_of(adata.obs),
            "var": columns_of(adata.var),
            **matrices_of({"X": adata.X}),
            "layers": matrices_of(adata.layers),
            "obsm": matrices_of(adata.obsm),
        }
    obsm = {key: v for key, v in matrices_of(mdata.obsm).items() if key not in mdata.mod}
    whole = {"obs_names": list(mdata.obs_names), "obs": columns_of(mdata.obs), "obsm": obsm}
    return {"whole": whole, "modalities": modalities}


def main(folder: Path) -> None:
    """Write all files, and what this version reads in them."""
    warnings.simplefilter("ignore")
    expected = {}
    for kind, mdata in examples().items():
        mdata.write(str(folder / f"{kind}.h5mu"))
        expected[f"{kind}.h5mu"] = described(mudata.read(str(folder / f"{kind}.h5mu")))
    mdata = examples()["same"]
    mdata.write_zarr(str(folder / "same.zarr"))
    expected["same.zarr"] = expected["same.h5mu"]
    (folder / "expected.json").write_text(json.dumps(expected, sort_keys=True))
    print(mudata.__version__, anndata.__version__, sorted(expected))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
