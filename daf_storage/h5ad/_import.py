"""From AnnData to Daf, in blocks: memory does not grow with the matrices.

What each part becomes is written down in docs/reference/anndata.md.  Nothing is dropped silently:
what cannot be carried over is listed in the report.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage.anndata import (
    NOTES,
    AnnDataTree,
    AnnDataWarning,
    EntryNames,
    Report,
    kept_image,
    part_label,
    tree_of_object,
    write_value,
)
from daf_storage.base import (
    IMPORT_CHUNK_KB,
    IfExists,
    Packing,
    Progress,
    ShowProgress,
    StorageType,
    first_duplicate,
    progress_bar,
)
from daf_storage.data import (
    DafReader,
    DafWriter,
    StoredMatrix,
    copy_stored,
    kept,
    layout,
    ordered,
    size_bytes,
)
from daf_storage.opening import MemoryDaf, anndata_at, new_data_set
from daf_storage.trees import ZarrVersion, passing_over
from daf_storage.upkeep import CountsAs, count_types, counted_matrix

Duplicates: TypeAlias = Literal["error", "make_unique"]
"""What to do with names that occur more than once: refuse, or append ``-1``, ``-2`` and so on."""


def from_anndata(  # noqa: PLR0913 - the choices of an import
    adata: Any,
    destination: DafWriter | None = None,
    *,
    name: str | None = None,
    obs_is: str | None = None,
    var_is: str | None = None,
    X_is: str | None = None,  # noqa: N803 - the reference's spelling
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
    names = {"obs_is": obs_is, "var_is": var_is, "X_is": X_is}
    tree = tree_of_object(adata, **names)
    with undone_on_error(daf):
        report = _Import(tree, daf, relayout, duplicates, strict, counts_as).run()
    report.warn()
    return daf


def import_h5ad(  # noqa: PLR0913 - the choices of an import
    source: str | Path,
    destination: str | Path | DafWriter,
    *,
    obs_is: str | None = None,
    var_is: str | None = None,
    X_is: str | None = None,  # noqa: N803 - the reference's spelling
    relayout: bool = True,
    duplicates: Duplicates = "error",
    strict: bool = False,
    counts_as: CountsAs = None,
    if_exists: IfExists = "error",
    zarr_format: ZarrVersion | None = None,
    packed: bool | Packing = False,
    progress: ShowProgress = "auto",
) -> Report:
    """Import an AnnData into a new Daf data set, streaming its matrices.

    Parameters
    ----------
    source
        An ``h5ad`` file, or a Zarr directory or archive that anndata wrote.
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
        The source is no AnnData.
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
    names = {"obs_is": obs_is, "var_is": var_is, "X_is": X_is}
    how: Any = (relayout, duplicates, strict, counts_as, progress)
    if isinstance(destination, DafWriter) and (packed or zarr_format is not None):
        raise errors.InvalidInputError(
            f"{destination.location}: it was opened already; open it with packed= and "
            "zarr_format=, or pass its path"
        )
    with anndata_at(source, **names) as tree:
        if isinstance(destination, DafWriter):
            with undone_on_error(destination):
                return _Import(tree, destination, *how).run()
        with new_data_set(
            destination,
            if_exists=if_exists,
            zarr_format=zarr_format,
            packed=Packing(chunk_kb=IMPORT_CHUNK_KB) if packed is True else packed,
        ) as daf:
            return _Import(tree, daf, *how).run()


@dataclass
class _Import:
    """One import: a copy, into an empty data set, of an AnnData as it is presented in place."""

    tree: AnnDataTree
    daf: DafWriter
    relayout: bool
    duplicates: Duplicates
    strict: bool
    counts_as: CountsAs
    progress: ShowProgress = "never"

    def __post_init__(self) -> None:
        if self.daf.axes_set():
            raise errors.ExistsError(
                f"{self.daf.location}: an import needs an empty data set; this one has axes "
                f"{errors.shown_names(self.daf.axes_set(), none='')}"
            )
        self._source = DafReader(self.tree, name="AnnData")
        self._shown = self.tree.current()
        self._report = Report()

    def run(self) -> Report:
        """Do it; return what differs."""
        counts = self._counts()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AnnDataWarning)  # the report has them
            for what, problem in self.tree.losses():
                raise errors.CorruptDataError(f"{what}: {problem}")
            self._copy_axes()
            lost = self._keep_parts()
            items = self._shown.report().items
            self._copy_vectors()
        self._report.items += [item for item in items if item.what not in lost]
        self._copy_matrices(counts)
        if self.strict:
            self._report.refuse_losses(self.tree.location, what="import")
        for name in sorted(self._source.scalars_set()):
            kind, value = self._source.scalar_type(name), self._source.get_scalar(name)
            value = self._shown.notes if name == NOTES else value  # with the types of counts
            is_text = isinstance(value, str)
            self.daf.put_scalar(
                name, pa.array([value]) if is_text else np.array([value], kind.dtype)
            )
        return self._report

    def _counts(self) -> dict[str, StorageType]:
        """Return the types of matrices by what reports call them; refuse names of none."""
        if self.counts_as is None:
            return {}
        parts = self._shown.count_keys()
        counts = count_types(self.counts_as, "X", parts, self.tree.location)
        found = {parts[name]: kind for name, kind in counts.items()}
        for label, header in self._shown.matrices.values():
            if label in found and found[label].dtype != header.dtype:
                self._shown.matrix_notes.setdefault(label, {})["dtype"] = header.restored_dtype.str
        return found

    def _copy_axes(self) -> None:
        for axis, vectors in self._shown.frames.items():
            names = self._shown.properties[layout.axis_path(axis)].node(self.tree.base).array()
            if isinstance(names, EntryNames):
                self._check_names(names, vectors.part)
        for axis in sorted(self._source.axes_set()):
            self.daf.add_entries(axis, self._source.get_pa_vector(axis, "name"))

    def _check_names(self, names: EntryNames, part: str) -> None:
        """Refuse names that occur twice, unless they are to be made unique."""
        if not names.is_text:
            self._report.changed(f"{part}_names", "names that are not strings became text")
        twice = first_duplicate(names.given())
        if twice is None:
            return
        if self.duplicates == "error":
            raise errors.with_remedy(
                errors.DuplicateEntriesError(
                    f"{self.tree.location}: {part}_names are not unique: {twice!r} occurs more "
                    "than once"
                ),
                errors.Remedy(
                    "make them unique in AnnData, or import with ", 'duplicates="make_unique"'
                ),
            )
        self._report.renamed(f"{part}_names", f"made unique, such as {twice!r} to '{twice}-1'")

    def _copy_vectors(self) -> None:
        for axis in sorted(self._source.axes_set()):
            for name in sorted(self._source.vectors_set(axis)):
                stored = self._source.open_vector(axis, name)
                path = layout.vector_path(axis, name)
                with self.daf.change(path) as changes:
                    copy_stored(changes, path, stored)

    def _keep_parts(self) -> set[str]:
        """Keep what Daf has no place for; return the names of what anndata cannot write either."""
        lost = set()
        for path, place in self._shown.kept.items():
            what = part_label(place.part, place.key)
            write = functools.partial(write_value, what=what, report=self._report)
            try:
                image = kept_image(self.tree.base, place, place.part, write)
            except errors.UnsupportedInputError as error:
                if not any(item.what.startswith(what) for item in self._report.items):
                    self._report.lost(what, str(error))
                lost.add(what)
            else:
                kept.keep(self.daf.writable_tree, path, image)
        return lost

    def _copy_matrices(self, counts: dict[str, StorageType]) -> None:
        found = [
            (path, self._source.open_matrix(*path.split("/")[1:])) for path in self._shown.matrices
        ]
        sizes = (
            size_bytes(stored.arrays().values()) * (1 + self._is_relaid(stored))
            for _, stored in found
        )
        with progress_bar("import", sum(sizes), show=self.progress) as progress, passing_over():
            for path, stored in found:
                self._copy_matrix(path, stored, counts, progress)

    def _is_relaid(self, stored: StoredMatrix) -> bool:
        return self.relayout and stored.info.rows_axis != stored.info.columns_axis

    def _copy_matrix(
        self, path: str, stored: StoredMatrix, counts: dict[str, StorageType], progress: Progress
    ) -> None:
        """Copy a matrix, with its elements in order, and store the other layout."""
        label, header = self._shown.matrices[path]
        count = counts.get(label)
        copied = ordered(stored)
        info = copied.info
        if info.nnz != stored.info.nnz:
            self._report.changed(label, "elements that were stored more than once were added up")
        kinds = {} if count is None else {"nzval" if info.is_sparse else "": count}
        if self.daf.writable_tree.packing is not None and info.nnz is not None:
            narrow = np.min_scalar_type(max(info.nnz + 1, info.shape[0]))
            index = StorageType.of(np.promote_types(narrow, np.uint16))  # as of the reference
            kinds |= dict.fromkeys(("colptr", "rowval"), index)
        axes = (info.rows_axis, info.columns_axis)
        if kinds:
            is_flipped = axes[0] != axes[1] and header.layout != "csc"
            copied = counted_matrix(self._source, copied, kinds, what=label, is_flipped=is_flipped)
        with self.daf.change(path) as changes:
            copy_stored(changes, path, copied, add=progress.add)
        if self._is_relaid(stored):
            self.daf.relayout_matrix(*axes, info.name, progress=progress.add)


@contextmanager
def undone_on_error(daf: DafWriter) -> Iterator[None]:
    """Leave a data set as it was if the block, which only adds to it, raises.

    An archive drops what was not committed; of everything else, what is new is deleted.
    """
    axes, scalars, parts = daf.axes_set(), daf.scalars_set(), set(kept.arrays(daf.tree))
    try:
        with daf.batch():
            yield
    except BaseException:
        if not daf.is_append_only:
            for path in set(kept.arrays(daf.tree)) - parts:
                with daf.writable_tree.transaction() as changes, daf.writable_tree.lock():
                    changes.remove(path)
            for axis in daf.axes_set() - axes:
                daf.delete_axis(axis)
            for name in daf.scalars_set() - scalars:
                daf.delete_scalar(name)
        raise
