"""Files of others that are not read: an error says what each is, and what converts it."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from daf_storage import errors

_BEGINNING_BYTES: Final = 16


# Other kinds


@dataclass(frozen=True, slots=True)
class OtherKind:
    """A kind of files that is not read."""

    what: str
    advice: str
    """What to do, with the path and a name for what is made of it."""
    suffixes: tuple[str, ...] = ()
    begins: tuple[bytes, ...] = ()
    """The first bytes of a file, once decompressed."""
    holds: tuple[frozenset[str], ...] = ()
    """Names that a group or a directory has, all of one of these sets."""

    def is_it(self, names: Collection[str], path: str = "", beginning: bytes = b"") -> bool:
        """Return whether a group with these names is one, or a file by its name or first bytes."""
        return (
            any(each <= set(names) for each in self.holds)
            or (bool(self.begins) and beginning.startswith(self.begins))
            or (bool(self.suffixes) and path.lower().endswith(self.suffixes))
        )

    def error(self, path: str) -> errors.NotADafError:
        """Return the error that says what it is."""
        stem = Path(path).name.split(".")[0]
        advice = self.advice.format(path=path, stem=stem)
        return errors.NotADafError(f"{path}: this is {self.what}, which is not read; {advice}")


OTHER_KINDS: Final = (
    OtherKind(
        "a loom file",
        "convert it: python -c \"import anndata; anndata.io.read_loom('{path}')"
        ".write_h5ad('{stem}.h5ad')\"",
        holds=(frozenset({"matrix", "row_attrs", "col_attrs"}),),
    ),
    OtherKind(
        "an h5Seurat file",
        "convert it in R: SeuratDisk::Convert('{path}', dest = 'h5ad')",
        holds=(frozenset({"assays", "cell.names"}),),
    ),
    OtherKind(
        "an object of R, such as of Seurat or SingleCellExperiment",
        "convert it in R: anndataR::write_h5ad(anndataR::as_AnnData(readRDS('{path}')), "
        "'{stem}.h5ad')",
        suffixes=(".rds", ".rda", ".rdata"),
        begins=(b"X\n\0\0\0", b"RDX2\n", b"RDX3\n"),
    ),
    OtherKind(
        "a file of Loupe Browser",
        "take the filtered_feature_bc_matrix.h5 that Cell Ranger wrote beside it",
        suffixes=(".cloupe", ".vloupe"),
    ),
    OtherKind(
        "a file of aligned reads",
        "count them first, as cellranger count does, and take its filtered_feature_bc_matrix.h5",
        suffixes=(".bam", ".cram", ".sam"),
        begins=(b"BAM\1", b"CRAM"),
    ),
    OtherKind(
        "a file of raw reads",
        "count them first, as cellranger count does, and take its filtered_feature_bc_matrix.h5",
        suffixes=(".fastq", ".fastq.gz", ".fq.gz"),
    ),
    OtherKind(
        "a matrix of Matrix Market",
        "import the folder that it is in: daf import FOLDER {stem}.daf.zarr",
        suffixes=(".mtx", ".mtx.gz"),
        begins=(b"%%MatrixMarket",),
    ),
    OtherKind(
        "a folder of Matrix Market",
        "import it: daf import {path} {stem}.daf.zarr",
        holds=(frozenset({"matrix.mtx"}), frozenset({"matrix.mtx.gz"})),
    ),
    OtherKind(
        "a SOMA experiment of TileDB",
        'convert it: python -c "import tiledbsoma.io; tiledbsoma.io.to_h5ad(tiledbsoma.open('
        "'{path}'), '{stem}.h5ad', 'RNA')\"",
        holds=(frozenset({"__group", "__meta"}),),
    ),
)
"""All kinds; another one is an entry."""


def other_kind_at(path: str | Path) -> errors.NotADafError | None:
    """Say what a file or a directory is that is not read; None if it is not known."""
    where, names, beginning = Path(path), set[str](), b""
    try:
        if where.is_dir():
            names = {each.name for each in where.iterdir()}
        elif where.is_file():
            beginning = _beginning(where)
        else:
            return None
    except OSError:  # whoever opens it says why
        return None
    for kind in OTHER_KINDS:
        if kind.is_it(names, "" if names else str(path), beginning):
            return kind.error(str(path))
    return None


def _beginning(path: Path) -> bytes:
    """Return the first bytes of a file, decompressed if it is compressed by gzip."""
    with path.open("rb") as file:
        beginning = file.read(_BEGINNING_BYTES)
    if not beginning.startswith(b"\x1f\x8b"):
        return beginning
    try:
        with gzip.open(path) as file:
            return file.read(_BEGINNING_BYTES)
    except (EOFError, zlib.error):
        return b""
