"""Tests of MuData files of several versions of mudata, in place: what the version itself reads."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from daf_storage import DafReader, export_h5mu, open_daf
from tests.corpus.files import FILES

ARCHIVES = sorted((FILES / "mudata").glob("*.tar.xz"))


def _columns(daf: DafReader, axis: str, prefix: str = "") -> dict[str, list[str]]:
    """Return the vectors of an axis whose names begin with a prefix, as text."""
    names = [name for name in daf.vectors_set(axis) if name.startswith(prefix)]
    values = {name: daf.get_pa_vector(axis, name).to_pylist() for name in names}
    return {
        name.removeprefix(prefix): [str(value) for value in each] for name, each in values.items()
    }


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
