"""A small AnnData that has every encoding which anndata writes."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import anndata
import h5py
import numpy as np
import pandas as pd
import scipy.sparse as sp
import zarr

from tests.support import zip_folder

Categorical: Any = pd.Categorical
array: Any = pd.array

Form: TypeAlias = Literal["h5ad", "gzip", "zarr2", "zarr3", "zip"]
FORMS: Final[tuple[Form, ...]] = ("h5ad", "gzip", "zarr2", "zarr3", "zip")

N_OBS: Final = 30
N_VAR: Final = 20
NULLABLE_CATEGORIES: Final[dict[str, list[Any]]] = {
    "string": ["T", "µ-ÿ", "B"],
    "Int64": [10, 2, 33],
    "boolean": [True, False],
}
"""Categories by the type in which they are stored, as some versions of anndata and R do."""


def obs_columns() -> Any:
    """Return a DataFrame with a column of each kind."""
    random = np.random.default_rng(7)
    index = pd.Index([f"cell{n}" for n in range(N_OBS)], name="barcode")
    gaps = random.random(N_OBS) < 0.3
    gaps[:2] = True, False
    strings = random.choice(["B", "T", "NK", "µ-ÿ"], N_OBS)
    missing = array(strings.astype(object), dtype="string")
    missing[gaps] = pd.NA
    ambiguous = missing.copy()
    ambiguous[1] = ""
    codes = random.integers(-1, 3, N_OBS)
    codes[:3] = -1, 2, 0
    whole = random.integers(0, 3, N_OBS)
    frame = pd.DataFrame(index=index)
    frame["float32"] = random.random(N_OBS, dtype=np.float32)
    frame["float64"] = np.where(gaps, np.nan, random.random(N_OBS))
    frame["float16"] = random.random(N_OBS).astype(np.float16)
    frame["int8"] = random.integers(-100, 100, N_OBS).astype(np.int8)
    frame["uint64"] = random.integers(0, 2**63, N_OBS).astype(np.uint64) * 2
    frame["bool"] = gaps
    frame["strings"] = strings.astype(object)
    frame["category"] = Categorical.from_codes(whole, ["T", "B", "unused"])
    frame["with_gaps"] = Categorical.from_codes(codes, ["z", "a", "m"], ordered=True)
    frame["empty_category"] = Categorical.from_codes(whole, ["T", "", "B"])
    frame["empty_and_gaps"] = Categorical.from_codes(codes, ["T", "", "B"])
    frame["numbered"] = Categorical.from_codes(whole, [10, 2, 33])
    frame["halves"] = Categorical.from_codes(codes, [0.5, 1.5, 2.5])
    frame["flags"] = Categorical.from_codes(np.minimum(whole, 1), [False, True])
    for dtype, categories in NULLABLE_CATEGORIES.items():
        few = np.minimum(codes, len(categories) - 1)
        frame[f"categories_{dtype}"] = Categorical.from_codes(few, categories)
    frame["no_categories"] = Categorical([None] * N_OBS)
    frame["nullable"] = array(_gappy(np.full(N_OBS, 5), gaps), dtype="Int32")
    frame["not_null"] = array(np.arange(N_OBS), dtype="UInt8")
    frame["large"] = array(_gappy(np.full(N_OBS, 2**60 + 1), gaps), dtype="Int64")
    frame["maybe"] = array(_gappy(strings == "B", gaps), dtype="boolean")
    frame["surely"] = array(strings == "B", dtype="boolean")
    frame["missing"] = missing
    frame["ambiguous"] = ambiguous
    frame["no_gaps"] = array(strings.astype(object), dtype="string")
    frame["name"] = np.arange(N_OBS)
    frame["complex"] = random.random(N_OBS) * 1j
    return frame


def _gappy(values: Any, gaps: Any) -> list[Any]:
    """Return a list of values, of which some are None."""
    return [None if gap else value for value, gap in zip(values.tolist(), gaps, strict=True)]


def example() -> Any:
    """Return an AnnData with an element of each kind."""
    random = np.random.default_rng(11)
    counts = sp.random(N_OBS, N_VAR, 0.3, "csr", np.float32, rng=random)
    var = pd.DataFrame(
        {
            "length": random.integers(1, 1000, N_VAR),
            "category": Categorical(random.choice(["x", "y"], N_VAR)),
        },
        index=[f"gene{n}" for n in range(N_VAR)],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adata = anndata.AnnData(counts, obs=obs_columns(), var=var)
        wide = var.reindex([f"gene{n}" for n in range(N_VAR + 3)])
        adata.raw = anndata.AnnData(
            sp.random(N_OBS, N_VAR + 3, 0.4, "csr", np.float64, rng=random), obs=adata.obs, var=wide
        )
    adata.layers["dense"] = random.random((N_OBS, N_VAR))
    adata.layers["csc"] = sp.csc_matrix((counts * 10).astype(np.int64))
    adata.layers["half"] = random.random((N_OBS, N_VAR)).astype(np.float16)
    adata.layers["bools"] = sp.csr_matrix(counts.toarray() > 0)
    adata.layers["complex"] = random.random((N_OBS, N_VAR)) * 1j
    adata.obsm["X_pca"] = random.random((N_OBS, 4))
    adata.obsm["sparse"] = sp.csr_matrix(random.random((N_OBS, 3)) > 0.5)
    adata.obsm["sparse_half"] = sp.csr_matrix(counts[:, :3].astype(np.float64))
    adata.obsm["frame"] = pd.DataFrame(
        {"a": random.random(N_OBS), "b": np.arange(N_OBS, dtype=np.int32)}, index=adata.obs_names
    )
    adata.obsm["words"] = pd.DataFrame({"a": adata.obs["strings"]}, index=adata.obs_names)
    adata.obsm["cube"] = random.random((N_OBS, 2, 2))
    adata.obsm["category"] = random.random((N_OBS, 2))
    adata.varm["X_pca"] = random.random((N_VAR, 4))
    adata.varm["frame"] = random.random((N_VAR, 2)).astype(np.float32)
    adata.obsp["distances"] = sp.random(N_OBS, N_OBS, 0.1, "csr", rng=random)
    adata.obsp["columns"] = sp.csc_matrix(sp.random(N_OBS, N_OBS, 0.1, rng=random))
    adata.obsp["dense"] = random.random((N_OBS, N_OBS))
    adata.varp["close"] = random.random((N_VAR, N_VAR))
    adata.uns.update(
        {
            "category_colors": np.array(["#fff", "#000", "#123"], dtype=object),
            "with_gaps_colors": np.array(["#fff"], dtype=object),
            "title": "an example",
            "count": np.int32(7),
            "fraction": 0.25,
            "truth": np.True_,
            "zero": 0,
            "untruth": False,
            "nested": {"a": np.arange(3), "b": {"c": "d", "e": np.array(["x", "y"], dtype=object)}},
            "table": pd.DataFrame({"a": [1, 2]}),
            "sparse": sp.csr_matrix(np.eye(3)),
            "X_is": "counts",
        }
    )
    return adata


def write(adata: Any, folder: Path, form: Form) -> Path:
    """Write an AnnData in one of the forms; return its path."""
    path = folder / ("atlas.h5ad" if form in ("h5ad", "gzip") else "atlas.zarr")
    with warnings.catch_warnings(), anndata.settings.override(allow_write_nullable_strings=True):
        warnings.simplefilter("ignore")
        if form in ("h5ad", "gzip"):
            adata.write_h5ad(
                path,
                compression="gzip" if form == "gzip" else None,
                convert_strings_to_categoricals=False,
            )
            with h5py.File(path, "r+") as file:
                _store_nullable_categories(file)
            return path
        with anndata.settings.override(zarr_write_format=2 if form == "zarr2" else 3):
            adata.write_zarr(path, convert_strings_to_categoricals=False)
            _store_nullable_categories(zarr.open_group(path, mode="r+", use_consolidated=False))
            consolidate(path)
    return zip_folder(path, path.with_name("atlas.zarr.zip")) if form == "zip" else path


def consolidate(path: Path) -> None:
    """Write the consolidated metadata of a Zarr directory."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is in no specification of v3
        zarr.consolidate_metadata(path)


def _store_nullable_categories(root: Any) -> None:
    """Store the categories of some columns with a mask, where there are these columns."""
    for dtype, categories in NULLABLE_CATEGORIES.items():
        if f"categories_{dtype}" in root["obs"]:
            column = root[f"obs/categories_{dtype}"]
            del column["categories"]
            anndata.io.write_elem(column, "categories", array(categories, dtype=dtype))
