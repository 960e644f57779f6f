"""Walks: the files and functions of the packages that a request passes, each in a new process."""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

import anndata
import numpy as np
import pandas as pd
import scipy.sparse

import daf_query
import daf_storage

PACKAGES: Final = ("daf_query", "daf_storage")


class Passed(NamedTuple):
    """What a request passes of a package."""

    files: int
    functions: int


def write_data(folder: Path) -> None:
    """Write the data that the walks are over: an h5ad, a directory and an archive."""
    rng = np.random.default_rng(1)
    obs = pd.DataFrame(
        {"donor": pd.Categorical(rng.choice(["N1", "N2"], 300)), "age": rng.integers(1, 90, 300)},
        index=[f"c{n}" for n in range(300)],
    )
    counts = scipy.sparse.random(300, 40, 0.2, format="csr", random_state=1, dtype=np.float32)
    var = pd.DataFrame(index=[f"g{n}" for n in range(40)])
    anndata.AnnData(counts, obs, var).write_h5ad(folder / "x.h5ad")
    for name in ("x.daf.zarr", "x.daf.zarr.zip"):
        daf_storage.import_h5ad(folder / "x.h5ad", folder / name)


def _sql(folder: Path) -> Callable[[], Any]:
    db = daf_query.connect(folder / "x.daf.zarr")
    query = "SELECT name, X['g7'] FROM obs WHERE donor = 'N1' AND X['g7'] > 0"
    return lambda: db.sql(query).to_arrow_table()


def _slice(folder: Path) -> Callable[[], Any]:
    db = daf_query.connect(folder / "x.daf.zarr")
    return lambda: db.matrix("obs", "var", "X", rows="age > 40").to_scipy()


def _vector(folder: Path) -> Callable[[], Any]:
    daf = daf_storage.open_daf(folder / "x.daf.zarr")
    return lambda: daf.get_np_vector("obs", "age")


def _opening(name: str) -> Callable[[Path], Callable[[], Any]]:
    return lambda folder: lambda: daf_storage.open_daf(folder / name)


def _import(folder: Path) -> Callable[[], Any]:
    return lambda: daf_storage.import_h5ad(folder / "x.h5ad", folder / "new.daf.zarr")


WALKS: Final[dict[str, Callable[[Path], Callable[[], Any]]]] = {
    "SQL with a gene": _sql,
    "matrix(rows=...).to_scipy()": _slice,
    "get_np_vector": _vector,
    "open_daf of a directory": _opening("x.daf.zarr"),
    "open_daf of an archive": _opening("x.daf.zarr.zip"),
    "open_daf of an h5ad": _opening("x.h5ad"),
    "import_h5ad": _import,
}
"""What prepares each walk, and returns what is to be walked."""


@contextmanager
def recorded(seen: set[tuple[str, str]]) -> Any:
    """Note the file and the name of each function of the packages that is called meanwhile."""
    roots = tuple(str(Path(each.__file__ or "").parent) for each in (daf_query, daf_storage))

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(roots):
            seen.add((code.co_filename, code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def walk(name: str, folder: Path) -> dict[str, Passed]:
    """Return what one request passes, in a process of its own: nothing is cached before."""
    command = [sys.executable, "-m", "tests.house.walks", name, str(folder)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return {package: Passed(*each) for package, each in json.loads(done.stdout).items()}


def walks() -> dict[str, dict[str, Passed]]:
    """Return what each request passes, by package."""
    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder))
        return {name: walk(name, Path(folder)) for name in WALKS}


def _import_all() -> None:
    """Import all modules: a walk is through what a request calls, not through what it imports."""
    for package in (daf_query, daf_storage):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)


def _main(name: str, folder: str) -> None:
    _import_all()
    request = WALKS[name](Path(folder))
    seen: set[tuple[str, str]] = set()
    with recorded(seen):
        request()
    passed = {}
    for package in PACKAGES:
        functions = [each for each in seen if f"/{package}/" in each[0].replace("\\", "/")]
        passed[package] = Passed(len({path for path, _ in functions}), len(functions))
    print(json.dumps(passed))


if __name__ == "__main__":
    _main(*sys.argv[1:])
