"""The same 400 cells in every form that engines have to answer alike."""

from __future__ import annotations

from pathlib import Path

import anndata as ad
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from daf_storage import convert, import_h5ad

CELLS = 400
GENES = 30
FORMS = ("plain", "packed", "zipped", "h5ad", "collection")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder as one of engines."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("engines")


def _cells(rng: np.random.Generator, start: int, stop: int) -> ad.AnnData:
    count = stop - start
    counts = sp.random(count, GENES, 0.2, format="csr", dtype="float32", rng=rng)
    counts.data = np.ceil(counts.data * 9)
    obs = pd.DataFrame(
        {
            "age": rng.integers(0, 90, count).astype("int32"),
            "score": np.where(rng.random(count) < 0.1, np.nan, rng.random(count)),
            "donor": rng.choice(["d1", "d2", "d3"], count),
            "cell_type": pd.Categorical(rng.choice(["B", "T", "NK"], count)),
            "is_doublet": rng.random(count) < 0.1,
        },
        index=[f"cell_{number}" for number in range(start, stop)],
    )
    var = pd.DataFrame(index=[f"gene_{number}" for number in range(GENES)])
    return ad.AnnData(counts, obs=obs, var=var)


@pytest.fixture(scope="session")
def forms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the path, or the pattern, of each form: axes ``obs`` and ``var``, the matrix ``X``.

    Tables of the collection have the column ``dataset`` too; the others are equal.
    """
    folder = tmp_path_factory.mktemp("forms")
    rng = np.random.default_rng(0)
    halves = [_cells(rng, 0, CELLS // 2), _cells(rng, CELLS // 2, CELLS)]
    whole = ad.concat(halves)
    whole.write_h5ad(folder / "cells.h5ad")
    import_h5ad(folder / "cells.h5ad", folder / "plain.daf.zarr", obs_is="obs", var_is="var")
    convert(folder / "plain.daf.zarr", folder / "packed.daf.zarr", packed=True)
    convert(folder / "plain.daf.zarr", folder / "zipped.daf.zarr.zip")
    (folder / "runs").mkdir()
    for number, half in enumerate(halves):
        half.write_h5ad(folder / f"run{number}.h5ad")
        target = folder / f"runs/run{number}.daf.zarr"
        import_h5ad(folder / f"run{number}.h5ad", target, obs_is="obs", var_is="var")
    return {
        "plain": str(folder / "plain.daf.zarr"),
        "packed": str(folder / "packed.daf.zarr"),
        "zipped": str(folder / "zipped.daf.zarr.zip"),
        "h5ad": str(folder / "cells.h5ad"),
        "collection": str(folder / "runs/*.daf.zarr"),
    }
