"""Import of a folder of Matrix Market files, in blocks.

The elements of ``matrix.mtx`` are written by Cell Ranger cell by cell, with the numbers of features
counted from 1: just what Daf stores.  So each block of lines is parsed by Arrow and copied into the
reserved arrays; only where elements come in another order is the whole matrix held and sorted.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import scipy.io
import scipy.sparse as sp

from daf_storage import errors
from daf_storage.base import (
    AnyArray,
    IfExists,
    Packing,
    Progress,
    ShowProgress,
    first_duplicate,
    progress_bar,
)
from daf_storage.data import DafWriter
from daf_storage.opening import new_data_set
from daf_storage.trees import ZarrVersion

_MATRIX: Final = re.compile(r"^(?P<prefix>.*)matrix\.mtx(\.gz)?$")
_BLOCK_BYTES: Final = 1 << 23
_TYPES: Final[dict[str, Any]] = {"integer": np.dtype(np.int32), "real": np.dtype(np.float64)}
_COLUMNS: Final = ("gene_symbols", "feature_types", "chromosome", "start", "end")
"""What the columns of ``features.tsv`` behind the first one are called here."""


@dataclass(frozen=True, slots=True)
class _Header:
    """What a Matrix Market file says at its beginning."""

    dtype: np.dtype[Any]
    shape: tuple[int, int]
    """Numbers of features and of barcodes."""
    nnz: int


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
    read in blocks, and never held as a whole if its elements are ordered by barcode,
    as Cell Ranger writes them.

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
        header = _header_of(matrix)
        for path, table, said, what in zip(
            lists, (features, barcodes), header.shape, ("rows", "columns"), strict=True
        ):
            if table.num_rows != said:
                raise errors.FormatError(
                    f"{matrix}: it has {said:,} {what}, but {path.name} has {table.num_rows:,} "
                    "lines; they belong to different matrices, or a file is incomplete"
                )
        with progress_bar("import", _size_bytes(header), show=progress) as bar:
            _store(daf, (var_is, obs_is, X_is), matrix, header, bar)
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
        if there:
            paths.append(there[0])
            continue
        raise errors.SourceNotFoundError(
            f"{folder}: there is no {' or '.join(wanted)}; "
            f"it has {errors.shown_names(names, none='no files')}"
        )
    return paths


def _table(path: Path) -> pa.Table:
    """Read a table of strings without a head, whose first column names the entries of an axis."""
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


def _elements(path: Path, header: _Header) -> Iterator[tuple[AnyArray, AnyArray, AnyArray]]:
    """Yield blocks of rows and columns, counted from 1, and values, in the order of the file."""
    if not header.nnz:
        return
    types = (pa.int64(), pa.int64(), pa.from_numpy_dtype(header.dtype))
    names = ("row", "column", "value")
    try:
        with _opened(path) as file:
            for line in file:
                if line.strip() and line[:1] != b"%":  # the sizes
                    break
            batches = pacsv.open_csv(
                file,
                read_options=pacsv.ReadOptions(column_names=names, block_size=_BLOCK_BYTES),
                parse_options=pacsv.ParseOptions(delimiter=" ", quote_char=False),
                convert_options=pacsv.ConvertOptions(
                    column_types=dict(zip(names, types, strict=True)), null_values=[]
                ),
            )
            for batch in batches:
                rows, columns, values = map(np.asarray, batch.columns)
                for name, numbers, size in zip(names, (rows, columns), header.shape, strict=False):
                    outside = numbers[(numbers < 1) | (numbers > size)]
                    if outside.size:
                        raise errors.FormatError(
                            f"{path}: an element is in {name} {outside[0]}, but there are {size:,}"
                        )
                yield rows, columns, values
    except pa.ArrowException as error:
        raise errors.FormatError(
            f"{path}: a line is no row, column and value ({header.dtype}) with "
            f"single spaces between them: {error}"
        ) from None


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield file
    except (OSError, EOFError, zlib.error) as error:
        raise errors.CorruptDataError(f"{path}: it cannot be read: {error}") from None


def _header_of(path: Path) -> _Header:
    with _opened(path):
        try:
            rows, columns, nnz, form, kind, symmetry = scipy.io.mminfo(path)
        except ValueError as error:
            raise errors.FormatError(f"{path}: it is no Matrix Market file: {error}") from None
    if kind not in _TYPES or (form, symmetry) != ("coordinate", "general"):
        raise errors.FormatError(
            f"{path}: its first line says {f'{form} {kind} {symmetry}'!r}, and that of a matrix of "
            "counts 'coordinate integer general', or real in place of integer"
        )
    return _Header(_TYPES[kind], (rows, columns), nnz)


def _size_bytes(header: _Header) -> int:
    return header.nnz * (header.dtype.itemsize + np.dtype(np.uint32).itemsize)


class _UnorderedError(Exception):
    """Elements are not ordered by column and row."""


def _store(
    daf: DafWriter, place: tuple[str, str, str], path: Path, header: _Header, progress: Progress
) -> None:
    """Copy the elements block by block; where they are not in order, sort all of them first."""
    try:
        with daf.empty_sparse_matrix(*place, header.dtype, header.nnz) as parts:
            counts = np.zeros(header.shape[1], np.int64)
            at, last = 0, -1
            for rows, columns, values in _elements(path, header):
                keys = (columns - 1) * header.shape[0] + rows - 1
                if keys[0] <= last or not bool(np.all(keys[1:] > keys[:-1])):
                    raise _UnorderedError
                start, at, last = at, at + rows.size, int(keys[-1])
                if at > header.nnz:
                    break
                parts.rowval[start:at], parts.nzval[start:at] = rows, values
                counts += np.bincount(columns - 1, minlength=counts.size)
                progress.add(_size_bytes(header) * rows.size // max(header.nnz, 1))
            _check_count(path, header, at)
            parts.colptr[0] = 1
            parts.colptr[1:] = np.cumsum(counts) + 1
    except _UnorderedError:
        pieces = zip(*_elements(path, header), strict=True)
        rows, columns, values = map(np.concatenate, pieces)
        _check_count(path, header, rows.size)
        matrix = sp.coo_array((values, (rows - 1, columns - 1)), shape=header.shape)
        daf.set_matrix(*place, matrix.tocsc(), relayout=False)


def _check_count(path: Path, header: _Header, counted: int) -> None:
    if counted != header.nnz:
        more = "at least " if counted > header.nnz else ""
        raise errors.FormatError(
            f"{path}: it says that it has {header.nnz:,} elements, and has "
            f"{more}{counted:,}; the file is incomplete"
        )
