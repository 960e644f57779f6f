"""The files of the corpus: what there is, and what each version read in its own."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

FILES: Final = Path(__file__).parent / "files"
"""Where the archives are, one for each version of anndata."""


@dataclass(frozen=True)
class CorpusFile:
    """An AnnData that a version of anndata wrote in a form."""

    folder: Path
    """Where the files of the version were unpacked."""
    form: str
    """Such as ``h5ad-gzip``."""
    kind: str
    """Which of the AnnData it is."""

    @property
    def version(self) -> str:
        """The version of anndata."""
        return self.folder.name

    @property
    def path(self) -> Path:
        """The file, or the directory."""
        [path] = (self.folder / self.form).glob(f"{self.kind}.*")
        return path

    @property
    def expected(self) -> Any:
        """What the version itself read in it, as a neutral description."""
        contents = _contents(self.folder)
        return contents["described"][contents["places"][f"{self.form}/{self.kind}"]]

    def __str__(self) -> str:
        return f"{self.version}/{self.form}/{self.kind}"


def versions() -> list[str]:
    """Return the versions of anndata, oldest first."""
    names = [path.name.removesuffix(".tar.xz") for path in FILES.glob("*.tar.xz")]
    return sorted(names, key=lambda name: [int(part) for part in name.split(".")])


def unpacked(
    version: str, folder: Path, is_wanted: Callable[[CorpusFile], bool] = lambda _: True
) -> list[CorpusFile]:
    """Unpack files of a version below a folder, and return them."""
    place = folder / version
    with tarfile.open(FILES / f"{version}.tar.xz") as archive:
        members = archive.getmembers()
        [expected] = (member for member in members if member.name == "expected.json")
        archive.extract(expected, place, filter="data")
        names = [name.split("/") for name in _contents(place)["places"]]
        files = [CorpusFile(place, form, kind) for form, kind in names]
        wanted = {(file.form, file.kind): file for file in files if is_wanted(file)}
        archive.extractall(
            place, [member for member in members if _file_of(member) in wanted], filter="data"
        )
    return [*wanted.values()]


def _file_of(member: tarfile.TarInfo) -> tuple[str, str]:
    """Return the form and the kind of the file that a member of an archive is a part of."""
    form, _, rest = member.name.partition("/")
    return form, rest.partition("/")[0].partition(".")[0]


@lru_cache
def _contents(folder: Path) -> Any:
    return json.loads((folder / "expected.json").read_text())
