"""From AnnData to Daf, in blocks: memory does not grow with the matrices.

What each part becomes is written down in docs/reference/anndata.md.  Nothing is dropped silently:
what cannot be carried over is listed in the report.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from daf_storage import errors
from daf_storage.anndata_rules import Report
from daf_storage.base import (
    IMPORT_CHUNK_KB,
    IfExists,
    Packing,
    ShowProgress,
)
from daf_storage.data import (
    DEFAULT_MEMORY_BYTES,
    CountsAs,
    DafWriter,
    check_memory,
)
from daf_storage.h5ad._importer import Duplicates, Importer
from daf_storage.h5ad._sources import (
    from_object,
    open_h5ad,
)
from daf_storage.h5ad._undo import undone_on_error
from daf_storage.opening import MemoryDaf, new_data_set
from daf_storage.trees import ZarrVersion


def from_anndata(  # noqa: PLR0913 - the choices of an import
    adata: Any,
    destination: DafWriter | None = None,
    *,
    name: str | None = None,
    obs_is: str | None = None,
    var_is: str | None = None,
    X_is: str | None = None,  # noqa: N803 - the reference's spelling
    categorical_axes: Collection[str] = (),
    relayout: bool = True,
    duplicates: Duplicates = "error",
    strict: bool = False,
    counts_as: CountsAs = None,
) -> DafWriter:
    """Return an AnnData object as a Daf data set, in memory unless a destination is given.

    Parameters
    ----------
    destination
        An empty data set to fill; a new `MemoryDaf` by default.
    name
        What the new `MemoryDaf` is called; a destination has its own name.
    obs_is, var_is, X_is
        Names of the two axes and of the main matrix.  By default what ``uns`` says under these
        keys, else ``obs``, ``var`` and ``X``.
    categorical_axes
        Categorical columns that become an axis of their own, besides those that have colours.
    relayout
        Whether to store the matrices in both orientations.
    duplicates
        What to do if ``obs_names`` or ``var_names`` are not unique.
    strict
        Whether to raise if a part cannot be carried over.
    counts_as
        The type in which the whole numbers of the main matrix are stored: ``"uint8"``,
        ``"uint16"`` or ``"uint32"``; or that of several matrices, by the key of the layer, ``"X"``
        and ``"raw.X"``.  Slices and SQL have that type; a matrix becomes an AnnData's in the type
        that it had.

    Warns
    -----
    AnnDataWarning
        For each part that cannot be carried over, or not as it was.

    Raises
    ------
    UnsupportedInputError
        Something would be lost and ``strict`` is true, or a value does not fit into the type of
        ``counts_as``; the destination is as empty as it was.

    Examples
    --------
    >>> import anndata, numpy as np
    >>> daf = from_anndata(anndata.AnnData(np.eye(2)), name="tiny!", obs_is="cell", var_is="gene")
    >>> daf.name, sorted(daf.axes_set())
    ('tiny!', ['cell', 'gene'])
    """
    if destination is not None and name is not None:
        raise errors.InvalidInputError(
            f"{destination.location}: a destination has a name already, {destination.name!r}; pass "
            f"name={name!r} without a destination, or when the destination is opened"
        )
    daf = destination if destination is not None else MemoryDaf(name=name)
    importer = Importer(
        from_object(adata, "AnnData"),
        daf,
        names={"obs_is": obs_is, "var_is": var_is, "X_is": X_is},
        categorical_axes=categorical_axes,
        relayout=relayout,
        duplicates=duplicates,
        strict=strict,
        counts_as=counts_as,
        memory_bytes=DEFAULT_MEMORY_BYTES,
        progress="never",
    )
    with undone_on_error(daf):
        report = importer.run()
    report.warn()
    return daf


def import_h5ad(  # noqa: PLR0913 - the choices of an import
    source: str | Path,
    destination: str | Path | DafWriter,
    *,
    obs_is: str | None = None,
    var_is: str | None = None,
    X_is: str | None = None,  # noqa: N803 - the reference's spelling
    categorical_axes: Collection[str] = (),
    relayout: bool = True,
    duplicates: Duplicates = "error",
    strict: bool = False,
    counts_as: CountsAs = None,
    if_exists: IfExists = "error",
    zarr_format: ZarrVersion | None = None,
    packed: bool | Packing = False,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    progress: ShowProgress = "auto",
) -> Report:
    """Import an ``h5ad`` file into a new Daf data set, streaming its matrices.

    Parameters
    ----------
    source
        The file.
    destination
        A path, at which the data set appears when it is complete, or an empty data set.
    counts_as
        The type in which the whole numbers of matrices are stored, as of `from_anndata`.
    if_exists
        What becomes of a data set at the destination's path:
        ``"error"`` leaves it, ``"replace"`` replaces it.
    zarr_format, packed
        How to write it at a path, see `open_daf`; a data set was opened so.  Where it is packed,
        indices have the narrowest type, and ``True`` asks for chunks of 64 KiB.
    memory_bytes
        How much memory the elements of matrices may take on their way, 16 MiB or more.  Names,
        columns and pointers to rows are not counted.  With more, the second orientation of a matrix
        is written in fewer passes.  Of what is packed, each matrix is held besides.
    progress
        Whether to show a progress bar on stderr.

    Other parameters are those of `from_anndata`.

    Returns
    -------
    Report
        What could not be carried over, or not as it was, and what is kept beside the data.

    Raises
    ------
    FormatError
        The source is not an h5ad file.
    InvalidInputError
        ``memory_bytes`` is too little.
    UnsupportedDataError
        A link in the file leads to another file, or the elements of a dataset are in one: no other
        file is read.
    UnsupportedInputError
        Something would be lost and ``strict`` is true; nothing is left at the destination.
    ExistsError
        There is something at the destination and ``if_exists`` is ``"error"``.

    Examples
    --------
    >>> import anndata, daf_storage, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> anndata.AnnData(shape=(2, 3)).write_h5ad(folder / "empty.h5ad")
    >>> path = folder / "empty.daf.zarr"
    >>> report = daf_storage.import_h5ad(folder / "empty.h5ad", path, obs_is="cell", var_is="gene")
    >>> daf_storage.open_daf(path).axis_length("gene")
    3
    """
    options: dict[str, Any] = {
        "names": {"obs_is": obs_is, "var_is": var_is, "X_is": X_is},
        "categorical_axes": categorical_axes,
        "relayout": relayout,
        "duplicates": duplicates,
        "strict": strict,
        "counts_as": counts_as,
        "memory_bytes": check_memory(memory_bytes),
        "progress": progress,
    }
    if isinstance(destination, DafWriter) and (packed or zarr_format is not None):
        raise errors.InvalidInputError(
            f"{destination.location}: it was opened already; open it with packed= and "
            "zarr_format=, or pass its path"
        )
    with open_h5ad(Path(source)) as parts:
        if isinstance(destination, DafWriter):
            importer = Importer(parts, destination, **options)
            with undone_on_error(destination):
                return importer.run()
        with new_data_set(
            destination,
            if_exists=if_exists,
            zarr_format=zarr_format,
            packed=_import_packing(packed),
        ) as daf:
            return Importer(parts, daf, **options).run()


def _import_packing(packed: bool | Packing) -> bool | Packing:  # noqa: FBT001 - as `packed=` is given
    """Return how an import packs: by default, in larger chunks than what is written by hand."""
    return Packing(chunk_kb=IMPORT_CHUNK_KB) if packed is True else packed
