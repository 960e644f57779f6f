"""Make the corpus again: an environment for each version of anndata, its files, and an archive.

    python -m tests.corpus.build            all versions
    python -m tests.corpus.build 0.9.2      one of them

Each version needs a Python of its time (``python3.8`` on the path, or in pyenv) and the packages
that it was made for, from the package registry that pip is set up for.  README.md says how long it takes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.corpus.files import FILES

ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True)
class Environment:
    """What a version of anndata is installed with."""

    version: str
    """The version of anndata."""
    python: str
    """The version of Python."""
    requirements: tuple[str, ...] = ()
    """Bounds of other packages; what pip chooses within them stands in ``expected.json``."""
    mudata: str = ""
    """The version of mudata, where that writes the files."""


ENVIRONMENTS: Final = (
    Environment("0.6.22", "3.7", ("zarr<2.6", "numpy<1.19", "pandas<1.1", "scipy<1.5", "h5py<3")),
    Environment("0.7.8", "3.8", ("zarr<2.12", "numpy<1.22", "pandas<1.4", "scipy<1.8", "h5py<3.7")),
    Environment("0.8.0", "3.9", ("zarr<2.14", "numpy<1.24", "pandas<1.6", "scipy<1.11")),
    Environment("0.9.2", "3.10", ("zarr<2.17", "numpy<1.26", "pandas<2.1", "scipy<1.12", "dask")),
    Environment("0.10.9", "3.11", ("zarr<3", "numpy<2", "pandas<2.3", "scipy<1.14", "dask")),
    Environment("0.11.4", "3.12", ("zarr<3", "pandas<3", "dask")),
    Environment("0.12.19", "3.12", ("pandas<3", "dask")),
    Environment("0.13.4", "3.12", ("dask",)),
    Environment(
        "0.7.8", "3.8", ("zarr<2.12", "numpy<1.22", "pandas<1.4", "scipy<1.8", "h5py<3.7"), "0.1.2"
    ),
    Environment("0.10.7", "3.11", ("zarr<3", "numpy<2", "pandas<2.3", "scipy<1.14"), "0.2.4"),
    Environment("0.12.19", "3.12", ("pandas<3",), "0.3.10"),
)


def interpreter(version: str) -> str:
    """Return the path of a Python of a version, such as 3.8."""
    for folder in sorted(Path.home().glob(f".pyenv/versions/{version}.*")):
        return str(folder / "bin" / "python")
    found = shutil.which(f"python{version}")
    if found is None:
        raise SystemExit(f"there is no python{version} on the path, and none in pyenv")
    return found


def build(environment: Environment, folder: Path) -> None:
    """Install a version, let it write its files, and pack them."""
    prefix, output = folder / "environment", folder / environment.version
    output.mkdir()
    subprocess.run([interpreter(environment.python), "-m", "venv", prefix], check=True)
    python = prefix / "bin" / "python"
    wanted = [f"anndata=={environment.version}", *environment.requirements]
    wanted += [f"mudata=={environment.mudata}"] * bool(environment.mudata)
    install = ["-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
    subprocess.run([str(python), *install, *wanted], check=True)
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    writer, name = (
        ("write_mudata", f"mudata/{environment.mudata}")
        if environment.mudata
        else ("write", environment.version)
    )
    subprocess.run([python, "-m", f"tests.corpus.{writer}", output], check=True, env=variables)
    pack(output, FILES / f"{name}.tar.xz")


def pack(folder: Path, archive: Path) -> None:
    """Write the files of a folder into an archive, in their order, without dates and owners."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        member.mode = 0o755 if member.isdir() else 0o644
        return member

    with tarfile.open(archive, "w:xz", preset=9) as file:
        for path in sorted(folder.rglob("*")):
            file.add(path, path.relative_to(folder), recursive=False, filter=plain)
    print(f"{archive.name}: {archive.stat().st_size:,} bytes")


def main() -> None:
    """Build what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("versions", nargs="*", help="those to make again; all by default")
    versions = parser.parse_args().versions
    (FILES / "mudata").mkdir(parents=True, exist_ok=True)
    for environment in ENVIRONMENTS:
        if not versions or environment.version in versions:
            with tempfile.TemporaryDirectory() as folder:
                build(environment, Path(folder))


if __name__ == "__main__":
    main()
