"""Environments of peers, which cannot share one: each is made once, from the package index, with the newest versions."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


@dataclass(frozen=True)
class Environment:
    """What a peer needs."""

    python: str
    """The version of Python."""
    packages: tuple[str, ...]


ENVIRONMENTS: Final = {
    "soma": Environment("3.11", ("tiledbsoma",)),
    "slaf": Environment("3.11", ("slafdb",)),
    "homeobox": Environment("3.13", ("homeobox",)),
    "annbatch": Environment("3.12", ("annbatch[zarrs]",)),
    "zarr_search": Environment(
        "3.11", ("zarr-datafusion-search", "datafusion>=53,<54", "obstore", "pyarrow", "zarr")
    ),
    "xarray_sql": Environment("3.12", ("xarray-sql", "zarr", "dask")),
}


class EnvironmentMissingError(Exception):
    """An environment could not be made; the message says why."""


def python_of(name: str, folder: Path) -> Path:
    """Return the interpreter of an environment, which is made now if it is not there.

    Raises
    ------
    EnvironmentMissingError
        There is no such Python, or a package cannot be installed; that is remembered for the next time.
    """
    place, wanted = folder / name, ENVIRONMENTS[name]
    python = place / "bin" / "python"
    failed = folder / f"{name}.failed"
    if (place / ".ok").exists():
        return python
    if failed.exists():
        raise EnvironmentMissingError(failed.read_text())
    folder.mkdir(parents=True, exist_ok=True)
    try:
        shutil.rmtree(place, ignore_errors=True)
        _run(_interpreter(wanted.python), "-m", "venv", str(place))
        _run(str(python), "-m", "pip", "install", "--quiet", "--upgrade", "pip")
        _run(str(python), "-m", "pip", "install", "--quiet", *wanted.packages)
    except EnvironmentMissingError as error:
        failed.write_text(str(error))
        raise
    (place / ".ok").touch()
    return python


def _interpreter(version: str) -> str:
    """Return a Python of a version, on the path or among those of pyenv."""
    candidates = [shutil.which(f"python{version}") or ""]
    candidates += map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for candidate in filter(None, candidates):
        found = subprocess.run([candidate, "--version"], capture_output=True, check=False)
        if found.returncode == 0:
            return candidate
    raise EnvironmentMissingError(f"there is no Python {version}")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["pip failed"]
        raise EnvironmentMissingError(lines[-1][:200])
