"""Tests of MuData in place, a copy and exported: files of versions of mudata, and random ones."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import anndata
import anndata.tests.helpers
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from daf_storage import DafReader, convert, export_h5mu, open_daf, verify
from tests.corpus.files import FILES
from tests.corpus.write_mudata import described
from tests.support import every

ARCHIVES = sorted((FILES / "mudata").glob("*.tar.xz"))


def _columns(daf: DafReader, axis: str, prefix: str = "") -> dict[str, list[str]]:
    """Return the vectors of an axis whose names begin with a prefix, as text, if none is missing."""
    names = [name for name in daf.vectors_set(axis) if name.startswith(prefix)]
    values = {name: [*map(str, daf.get_pa_vector(axis, name).to_pylist())] for name in names}
    return {name.removeprefix(prefix): v for name, v in values.items() if "nan" not in v}


def _matrix(daf: DafReader, rows: str, columns: str, name: str) -> Any:
    values = daf.get_np_matrix(rows, columns, name)
    return (values.toarray() if hasattr(values, "toarray") else values).tolist()


def _modality(daf: DafReader, name: str) -> dict[str, Any]:
    """Return a modality as it is presented, in the form in which mudata's reading is described."""
    obs, var = (
        f"{name}.{part}" if daf.has_axis(f"{name}.{part}") else part for part in ("obs", "var")
    )
    matrices = daf.matrices_set(obs, var, relayout=True)
    annotations = [axis for axis in daf.axes_set() if daf.has_matrix(obs, axis, axis)]
    return {
        "obs_names": daf.axis_entries(obs).tolist(),
        "var_names": daf.axis_entries(var).tolist(),
        "obs": _columns(daf, obs, f"{name}:" if obs == "obs" else ""),
        "var": _columns(daf, var, f"{name}:" if var == "var" else ""),
        "X": _matrix(daf, obs, var, f"{name}.X"),
        "layers": {
            key.removeprefix(f"{name}."): _matrix(daf, obs, var, key)
            for key in matrices
            if key.startswith(f"{name}.") and key != f"{name}.X"
        },
        "obsm": {
            axis.removeprefix(f"{name}."): _matrix(daf, obs, axis, axis)
            for axis in annotations
            if axis.startswith(f"{name}.")
        },
    }


@pytest.mark.sampled(1)
@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def test_files_of_a_version(archive: Path, tmp_path: Path) -> None:
    """All modalities and what is global, in HDF5 and in Zarr; also of what is exported again."""
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    expected = json.loads((tmp_path / "expected.json").read_text())
    assert {"same.h5mu", "same.zarr", "other.h5mu"} <= set(expected)
    for file, wanted in expected.items():
        with open_daf(tmp_path / file) as daf:
            _check(daf, wanted, file)
            export_h5mu(daf, tmp_path / "back.h5mu", if_exists="replace", strict=True)
        with open_daf(tmp_path / "back.h5mu") as daf:
            _check(daf, wanted, file)


def _check(daf: DafReader, wanted: dict[str, Any], file: str) -> None:
    """Compare with what mudata read."""
    for name, modality in wanted["modalities"].items():
        found = _modality(daf, name)
        own = {part: found[part].pop(part, None) for part in ("obs", "var")}
        links = {"obs": found["obs_names"], "var": found["var_names"]}
        assert all(own[part] in (None, links[part]) for part in own)
        assert found == modality, (file, name)
    whole = wanted["whole"]
    assert daf.axis_entries("obs").tolist() == whole["obs_names"]
    assert whole["obs"].items() <= _columns(daf, "obs").items()
    for key, values in whole["obsm"].items():
        assert _matrix(daf, "obs", key, key) == values


def _frame(rng: np.random.Generator, names: list[str]) -> pd.DataFrame:
    """Return a frame with some of all kinds of columns."""
    n = len(names)
    columns: dict[str, Any] = {
        "n": rng.integers(-3, 4, n),
        "x": rng.normal(size=n).astype("f4"),
        "text": rng.choice(["", "a", "ü"], n).astype(object),
        "flag": rng.random(n) < 0.5,
        "kind": pd.Categorical(rng.choice(["b", "a"], n), ["b", "a", "none"], ordered=True),
        "maybe": pd.array([7 if rng.random() > 0.3 else None for _ in names], "Int16"),
    }
    return pd.DataFrame({k: v for k, v in columns.items() if rng.random() < 0.6}, index=names)


def _random_modality(rng: np.random.Generator, cells: list[str], genes: list[str]) -> Any:
    """Return an AnnData with some of all parts."""
    n, m = len(cells), len(genes)

    def matrix(rows: int, columns: int) -> Any:
        values = rng.poisson(0.7, (rows, columns)).astype(rng.choice(["f4", "f8", "i4"]))
        return [values, sp.csr_matrix(values), sp.csc_matrix(values)][rng.integers(3)]

    made = anndata.AnnData(matrix(n, m), _frame(rng, cells), _frame(rng, genes))
    parts = {
        ("layers", "counts"): lambda: matrix(n, m),
        ("obsm", "X_pca"): lambda: rng.normal(size=(n, 3)),
        ("varm", "PCs"): lambda: rng.normal(size=(m, 3)),
        ("obsp", "near"): lambda: sp.csr_matrix(matrix(n, n)),
        ("varp", "linked"): lambda: sp.csr_matrix(matrix(m, m)),
        ("uns", "more"): lambda: {"n": 1, "list": np.arange(3)},
    }
    for (part, key), make in parts.items():
        if rng.random() < 0.4:
            getattr(made, part)[key] = make()
    if rng.random() < 0.3:
        made.raw = made.copy()
    return made


def _random_mudata(mudata: Any, seed: int) -> Any:
    """Return a MuData of shared cells or genes, which each modality has all of, or others."""
    rng = np.random.default_rng(seed)
    axis = int(rng.random() < 0.3)
    shared = [f"s{n}" for n in range(rng.integers(2, 9))]
    modalities = {}
    for name in rng.permutation(["rna", "prot", "atac"])[: rng.integers(1, 4)]:
        order = rng.permutation(shared)[: rng.integers(1, len(shared) + 1)].tolist()
        ours = shared if rng.random() < 0.5 else [*order, f"{name}-only"]
        others = [f"{name}{n}" for n in range(rng.integers(1, 5))]
        both = (others, ours) if axis else (ours, others)
        modalities[str(name)] = _random_modality(rng, *both)
    made = mudata.MuData(modalities, axis=axis)
    made.obs["of_all"] = rng.choice(["p", "q"], made.n_obs)
    if rng.random() < 0.5:
        made.obsm["X_mofa"] = rng.normal(size=(made.n_obs, 2))
    return made


@pytest.mark.filterwarnings("ignore::Warning")
@pytest.mark.parametrize("seed", range(16, 160, every(48)))
def test_random_ones(tmp_path: Path, seed: int) -> None:
    """In place, a copy and what is exported of either are what mudata reads."""
    mudata = pytest.importorskip("mudata")
    if hasattr(mudata, "set_options"):  # before 0.4, where nothing is copied by default
        mudata.set_options(pull_on_update=False)
    _random_mudata(mudata, seed).write(tmp_path / "x.h5mu")
    whole = mudata.read(tmp_path / "x.h5mu")
    wanted = json.loads(json.dumps(described(whole)))
    convert(tmp_path / "x.h5mu", tmp_path / "x.daf.zarr", progress="never")
    assert verify(tmp_path / "x.daf.zarr", progress="never") == []
    for source in ("x.h5mu", "x.daf.zarr"):
        with open_daf(tmp_path / source) as daf:
            _check(daf, wanted, source)
            export_h5mu(daf, tmp_path / "back.h5mu", if_exists="replace", strict=True)
        back = mudata.read(tmp_path / "back.h5mu")
        assert list(back.mod) == list(whole.mod)
        for name, modality in whole.mod.items():
            anndata.tests.helpers.assert_equal(back.mod[name], modality, exact=True)
        for part in ("obs", "var"):
            pd.testing.assert_frame_equal(getattr(back, part), getattr(whole, part))
        for part in ("obsm", "varm", "obsmap", "varmap"):
            mine, theirs = getattr(back, part), getattr(whole, part)
            assert set(mine) == set(theirs)
            assert all(np.array_equal(mine[key], theirs[key]) for key in theirs)
