"""Folders of Matrix Market files, as Cell Ranger writes them and GEO has them.

**Nouns.** A *matrix folder* has ``matrix.mtx``, ``barcodes.tsv`` and ``features.tsv`` (of older
versions ``genes.tsv``), each perhaps gzipped.

Must not know AnnData.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import scipy.io

from daf_storage import errors
from daf_storage.base import (
    IfExists,
    Packing,
    Progress,
    ShowProgress,
    first_duplicate,
    progress_bar,
)
from daf_storage.opening import new_data_set
from daf_storage.trees import ZarrVersion

_MATRIX: Final = re.compile(r"^(?P<prefix>.*)matrix\.mtx(\.gz)?$")
_OF_NUMBERS: Final = b"+-.0123456789 \t\r\n" + b"EINFATYeinfaty"  # also 1e5, NaN, -Infinity
_COLUMNS: Final = ("gene_symbols", "feature_types", "chromosome", "start", "end")
"""What the columns of ``features.tsv`` behind the first one are called here."""


def import_10x_mtx(  # noqa: PLR0913 - the choices of an import
    folder: str | Path,
    destination: str | Path,
    *,
    prefix: str | None = None,
    obs_is: str = "obs",
    var_is: str = "var",
    X_is: str = "X",  # noqa: N803 - the reference's spelling
    relayout: bool = True,
    if_exists: IfExists = "error",
    zarr_format: ZarrVersion | None = None,
    packed: bool | Packing = False,
    progress: ShowProgress = "auto",
) -> None:
    r"""Import ``matrix.mtx``, ``barcodes.tsv`` and ``features.tsv`` into a new data set.

    The barcodes are the entries of one axis, the ids of the features those of the other; symbols
    and types of features are the vectors ``gene_symbols`` and ``feature_types``.  The matrix is
    held in memory, which takes about 24 bytes for each of its elements; `import_h5ad` reads the
    ``.h5`` file that Cell Ranger writes beside the folder in blocks.

    Parameters
    ----------
    folder
        With or without ``.gz``; ``genes.tsv`` for ``features.tsv`` is that of Cell Ranger 2.
    destination
        A path, at which the data set appears when it is complete.
    prefix
        What the names of the three files begin with (``"GSM1_"``), where a folder has several.
    obs_is, var_is, X_is
        Names of the axes of barcodes and features, and of the matrix.
    relayout
        Whether to store the matrix in both orientations.
    if_exists, zarr_format, packed, progress
        As of `import_h5ad`.

    Raises
    ------
    SourceNotFoundError
        The folder lacks one of the three files.
    FormatError
        A file is damaged, or they do not fit each other.
    InvalidInputError
        A folder has several matrices and no ``prefix`` is given; or ids occur twice.
    ExistsError
        There is something at the destination and ``if_exists`` is ``"error"``.

    Examples
    --------
    >>> import daf_storage, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "barcodes.tsv").write_text("AAAC-1\nAAAG-1\n")
    >>> _ = (folder / "features.tsv").write_text("ENSG1\tCD8A\tGene Expression\n")
    >>> _ = (folder / "matrix.mtx").write_text(
    ...     "%%MatrixMarket matrix coordinate integer general\n1 2 1\n1 2 7\n"
    ... )
    >>> daf_storage.import_10x_mtx(folder, folder / "x.daf.zarr")
    >>> daf = daf_storage.open_daf(folder / "x.daf.zarr")
    >>> daf.get_np_matrix("obs", "var", "X").toarray().tolist()
    [[0], [7]]
    """
    matrix, *lists = _files_of(Path(folder), prefix)
    features, barcodes = map(_table, lists)
    with new_data_set(
        destination, if_exists=if_exists, zarr_format=zarr_format, packed=packed
    ) as daf:
        daf.add_axis(obs_is, barcodes.column(0))
        daf.add_axis(var_is, features.column(0))
        for name, column in zip(_COLUMNS, features.columns[1:], strict=False):
            daf.set_vector(var_is, name, column)
        for key, value in (("obs_is", obs_is), ("var_is", var_is), ("X_is", X_is)):
            if value != key.removesuffix("_is"):
                daf.set_scalar(key, value)
        with progress_bar("import", None, show=progress) as bar:
            elements = _elements(matrix, bar)
        for path, table, said, what in zip(
            lists, (features, barcodes), elements.shape, ("rows", "columns"), strict=True
        ):
            if table.num_rows != said:
                raise errors.FormatError(
                    f"{matrix}: it has {said:,} {what}, but {path.name} has {table.num_rows:,} "
                    "lines; they belong to different matrices, or a file is incomplete"
                )
        daf.set_matrix(var_is, obs_is, X_is, elements, relayout=False)
        if relayout:
            daf.relayout_matrix(var_is, obs_is, X_is)


def _files_of(folder: Path, prefix: str | None) -> list[Path]:
    """Return the matrix, the features and the barcodes, which have one prefix."""
    if not folder.is_dir():
        raise errors.SourceNotFoundError(f"{folder}: there is no such directory")
    names = {each.name for each in folder.iterdir()}
    found = {match["prefix"]: name for name in names if (match := _MATRIX.match(name))}
    if prefix is None and len(found) > 1:
        written = ", ".join(repr(each) for each in sorted(found))
        raise errors.InvalidInputError(
            f"{folder} has {len(found)} matrices; pass prefix=, one of {written}"
        )
    chosen = next(iter(found), "") if prefix is None else prefix

    paths = []
    for stems in (["matrix.mtx"], ["features.tsv", "genes.tsv"], ["barcodes.tsv"]):
        wanted = [f"{chosen}{stem}{gz}" for stem in stems for gz in ("", ".gz")]
        there = [folder / name for name in wanted if name in names]
        if not there:
            raise errors.SourceNotFoundError(
                f"{folder}: there is no {' or '.join(wanted)}; "
                f"it has {errors.shown_names(names, none='no files')}"
            )
        paths.append(there[0])
    return paths


def _table(path: Path) -> pa.Table:
    """Read a table of strings without a head, whose first column names the entries of an axis."""
    with _opened(path) as file:
        if not file.read(1):  # an axis without entries, which is no table to Arrow
            return pa.table({"f0": pa.array([], pa.string())})
    try:
        table = pacsv.read_csv(
            path,
            read_options=pacsv.ReadOptions(autogenerate_column_names=True),
            parse_options=pacsv.ParseOptions(delimiter="\t", quote_char=False),
            convert_options=pacsv.ConvertOptions(
                column_types={f"f{number}": pa.string() for number in range(len(_COLUMNS) + 1)},
                strings_can_be_null=False,
            ),
        )
    except (pa.ArrowException, OSError, EOFError) as error:
        raise errors.FormatError(
            f"{path}: it is no table of tab-separated names: {error}"
        ) from None
    twice = first_duplicate(table.column(0).combine_chunks())
    if twice is not None:
        raise errors.InvalidInputError(
            f"{path}: {twice!r} occurs more than once in the first column, which names the entries "
            "of an axis; make them unique in a copy of the file"
        )
    return table


class _AsReal:
    """The text of a matrix, with a first line that says real where it said integer.

    In a file of integers scipy reads ``1.5`` and ``1e5`` as 1, in any ``1,5`` and ``1d5``; a NUL
    character behind the sizes ends the process.
    """

    def __init__(self, file: IO[bytes], progress: Progress) -> None:
        self._file, self._progress = file, progress
        self._start = re.sub(b"(?i)integer", b"real", file.readline())
        while (line := file.readline()).lstrip()[:1] == b"%" or line.isspace():
            self._start += line
        self._start += line  # the sizes

    def read(self, size: int) -> bytes:
        """Return some bytes, not always so many; none at the end."""
        block, self._start = self._start, b""
        if not block:
            block = self._file.read(size)
            if others := block.translate(None, _OF_NUMBERS):
                raise ValueError(f"{others[:1]!r} in a number")
        self._progress.add(len(block))
        return block


def _elements(path: Path, progress: Progress) -> Any:
    """Read a matrix of features and barcodes, as int32 or float64; elements in one place add up."""
    with _opened(path):
        *_, form, kind, symmetry = scipy.io.mminfo(path)
    if kind not in ("integer", "real") or (form, symmetry) != ("coordinate", "general"):
        raise errors.FormatError(
            f"{path}: its first line says {f'{form} {kind} {symmetry}'!r}, and that of a matrix of "
            "counts 'coordinate integer general', or real in place of integer"
        )
    with _opened(path) as file:
        matrix = scipy.io.mmread(_AsReal(file, progress), spmatrix=False).tocsc()
    if kind == "integer":
        with np.errstate(invalid="ignore"):
            counts = matrix.data.astype(np.int32)
        others = matrix.data[counts != matrix.data]
        if others.size:
            raise errors.FormatError(
                f"{path}: its first line says integer, but an element is {others[0]}, which is no "
                "integer of 32 bits; say real there in a copy of the file"
            )
        matrix.data = counts
    return matrix


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield file
    except (OSError, EOFError, zlib.error) as error:
        raise errors.CorruptDataError(f"{path}: it cannot be read: {error}") from None
    except (ValueError, OverflowError, MemoryError) as error:
        raise errors.FormatError(
            f"{path}: it is no Matrix Market file, or a damaged one: {error}"
        ) from None
