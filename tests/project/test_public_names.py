"""Tests of the public face: exported names, documentation, layers, and optional packages."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import daf_query
import daf_storage
import daf_storage.spi
import daf_storage.testing
from daf_storage import errors
from daf_storage.base import install_command

PACKAGES = [daf_storage, daf_query]
REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGES = [
    (daf_storage, "python.md"),
    (daf_query, "python.md"),
    (daf_storage.spi, "spi.md"),
    (daf_storage.testing, "python.md"),
]


@pytest.mark.parametrize("package", [*PACKAGES, daf_storage.spi])
def test_all_lists_every_public_name(package: ModuleType) -> None:
    """Nothing is exported by accident, and nothing is forgotten."""
    public = {
        name
        for name in dir(package)
        if not name.startswith("_")
        and not (inspect.ismodule(getattr(package, name)) and name not in {"errors", "settings"})
    }
    public -= {"annotations", "TYPE_CHECKING", "lazy_names", "stubbed_names"} - set(package.__all__)
    assert public == set(package.__all__)


@pytest.mark.parametrize(("package", "page"), PAGES)
def test_every_public_name_has_a_reference_entry(package: ModuleType, page: str) -> None:
    """The reference page names it."""
    text = (REFERENCE / page).read_text()
    assert [name for name in package.__all__ if f"`{name}" not in text] == []


def test_every_error_is_in_the_drawn_tree() -> None:
    """The picture at the top of the module is complete."""
    found = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.DafError)
    }
    assert {name for name in found if name not in (errors.__doc__ or "")} == set()


def test_the_base_install_needs_no_extras() -> None:
    """Both packages import, and answer, without pandas, anndata, h5py, polars and matplotlib."""
    script = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in ("pandas", "anndata", "h5py", "polars", "matplotlib", "tqdm", "scanpy"):
            raise ModuleNotFoundError(f"no {name}", name=name)
sys.meta_path.insert(0, Missing())
import daf_storage, daf_query
from daf_query.cli import main
daf = daf_storage.MemoryDaf()
daf.add_axis("cell", ["a", "b"])
daf.set_vector("cell", "age", [1, 2])
daf.set_matrix("cell", "cell", "m", [[1, 2], [3, 4]])
db = daf_query.connect(daf)
assert db.sql("SELECT sum(age) AS s FROM cell").to_pydict() == {"s": [3]}
assert db.matrix("cell", "cell", "m", rows="age > 1").to_arrow().num_rows == 2
try:
    db.matrix("cell", "cell", "m").to_pandas()
except daf_storage.errors.MissingDependencyError as error:
    print(error)
"""
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout == (
        "this needs the package 'pandas', which is not installed; "
        f"install it with: {install_command('pandas')}\n"
    )


@pytest.mark.parametrize(
    ("noted", "command"),
    [
        (None, "pip install 'daf-query[x]'"),
        ({"url": "file:///my%20clone", "dir_info": {}}, 'pip install ".[x]" (in /my clone)'),
        (
            {"url": "file:///a/clone", "dir_info": {"editable": True}},
            'pip install ".[x]" (in /a/clone)',
        ),
        (
            {"url": "file:///daf_query-1.whl", "archive_info": {}},
            "pip install 'daf-query[x] @ file:///daf_query-1.whl'",
        ),
        (
            {"url": "https://h/r.git", "vcs_info": {"vcs": "git", "commit_id": "ab"}},
            "pip install 'daf-query[x] @ git+https://h/r.git@ab'",
        ),
        ("damaged", 'pip install ".[x]" (in a clone of the repository)'),
    ],
    ids=["index", "directory", "editable", "wheel", "repository", "damaged"],
)
def test_what_installs_an_extra(
    noted: Any, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked for from where the package came from, as pip noted."""
    (tmp_path / "METADATA").write_text("Name: daf-query\n")
    if noted is not None:
        (tmp_path / "direct_url.json").write_text(json.dumps(noted))
    found = importlib.metadata.PathDistribution(tmp_path)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda _: found)
    assert install_command("x") == command
