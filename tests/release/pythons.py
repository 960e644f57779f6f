"""Pythons that the project supports, and those of them that are on this machine.

``python -m tests.release.pythons`` prints the newest of these.
"""

from __future__ import annotations

import os
import shutil
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PREFIX = "Programming Language :: Python :: "


def supported_versions() -> list[str]:
    """Return the versions that the classifiers name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = (each.removeprefix(_PREFIX) for each in project["classifiers"] if _PREFIX in each)
    return [version for version in named if version.replace(".", "").isdecimal() and "." in version]


def installed_pythons(versions: list[str]) -> dict[str, Path | None]:
    """Return the interpreter of each version: of pyenv, else on the path; None if there is none."""
    return {version: _of_pyenv(version) or _on_path(version) for version in versions}


def _of_pyenv(version: str) -> Path | None:
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    pythons = (folder / "bin" / "python" for folder in root.glob(f"versions/{version}.*"))
    return next((python for python in sorted(pythons, reverse=True) if python.exists()), None)


def _on_path(version: str) -> Path | None:
    python = shutil.which(f"python{version}")
    return None if python is None else Path(python)


if __name__ == "__main__":
    newest = [each for each in installed_pythons(supported_versions()).values() if each][-1]
    sys.stdout.write(f"{newest}\n")
