"""Convert a matrix slice to an AnnData, with the other matrices over the same axes.

**Nouns.** A *companion* is a matrix that can come along with ``X``: a layer, an entry of ``obsm``
and so on.  The caller's *choice* names companions; the others come along as far as their estimated
sizes fit a budget of bytes.  The rules of the parts are those of `daf_storage.to_anndata`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypedDict

from daf_query._provenance import KEY, Record, as_json
from daf_query.matrix import Selection, gather_first, open_layouts, plan_layouts
from daf_storage import AnnDataWarning, DafReader, errors
from daf_storage.spi import (
    ANNDATA_PARTS,
    AlignedMatrix,
    StoredMatrix,
    aligned_matrices,
    axis_frame,
    lazy_module,
    optional_import,
    output_directory,
    output_path,
    write_anndata,
)

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

ANNDATA_MAX_BYTES: Final = 1 << 30
"""Default of ``max_bytes=``: 1 GiB for what comes along with ``X``."""

_STRING_BYTES: Final = 16
_INDEX_BYTES: Final = 4

Choice: TypeAlias = bool | str | Iterable[str] | None
"""All (True) or none (False) of a part; a key, or several; by default as many as fit."""


class AnnDataChoice(TypedDict, total=False):
    """What comes along with ``X``; see `MatrixSlice.to_anndata`."""

    layers: Choice
    obsm: Choice
    varm: Choice
    obsp: Choice
    varp: Choice
    max_bytes: int | None


class Contained(Protocol):
    """A slice that knows what an AnnData of it has."""

    def values(self) -> Any:
        """Return a CSR array or a dense one."""
        ...

    def contents(self, choice: AnnDataChoice, record: Record | None) -> Contents:
        """Return what an AnnData of the slice has beside its large matrices."""
        ...

    def unchanged_axes(self) -> AbstractContextManager[None]:
        """Refuse what is read meanwhile by positions, if an axis was replaced or reordered."""
        ...


class Slice(Contained, Protocol):
    """A slice of one data set, whose companions are found there."""

    daf: DafReader
    rows_axis: str
    columns_axis: str
    name: str
    selections: tuple[Selection, Selection]


@dataclass(frozen=True, slots=True)
class Companion:
    """A matrix that can come along with ``X``."""

    matrix: AlignedMatrix
    estimated_bytes: int
    """Its selected part in memory; of a sparse matrix, as if its elements were spread evenly."""

    @property
    def label(self) -> str:
        """Its place in the AnnData, such as ``layers['counts']``."""
        return f"{self.matrix.part}[{self.matrix.key!r}]"


@dataclass(frozen=True, slots=True)
class Companions:
    """The matrices over the axes of a slice."""

    main: AlignedMatrix
    """The matrix of the slice, which is ``X``."""
    available: tuple[Companion, ...]
    unavailable: Mapping[tuple[str, str], errors.DafError]
    """Why a matrix cannot come along, by its part and its key."""


@dataclass(frozen=True, slots=True)
class Selected:
    """The companions that come along, and those that do not fit the budget."""

    chosen: tuple[Companion, ...]
    left_out: tuple[Companion, ...]


def find_companions(part: Slice) -> Companions:
    """Return what could come along with a slice; reads metadata only."""
    main, *others = aligned_matrices(part.daf, part.rows_axis, part.columns_axis, part.name)
    available: list[Companion] = []
    unavailable: dict[tuple[str, str], errors.DafError] = {}
    for matrix in others:
        stored, faults = open_layouts(
            part.daf, (matrix.rows_axis, matrix.columns_axis), matrix.name
        )
        if not stored:
            unavailable[matrix.part, matrix.key] = faults[0]
        elif stored[0].info.storage_type.is_string and not matrix.is_annotation:
            what = f"{stored[0].what}: AnnData has no matrices of strings"
            unavailable[matrix.part, matrix.key] = errors.UnsupportedInputError(what)
        else:
            available.append(Companion(matrix, _estimated_bytes(stored[0], part, matrix)))
    return Companions(main, tuple(available), unavailable)


def _estimated_bytes(stored: StoredMatrix, part: Slice, matrix: AlignedMatrix) -> int:
    """Return the size of the selected part, from the metadata of the matrix alone."""
    info = stored.info
    rows, columns = companion_selections(part, matrix)
    n_selected = rows.size * columns.size
    item_bytes = _STRING_BYTES if info.storage_type.is_string else info.storage_type.dtype.itemsize
    if info.nnz is None:
        return n_selected * item_bytes
    n_elements = -(-info.nnz * n_selected // max(info.shape[0] * info.shape[1], 1))
    return n_elements * (item_bytes + _INDEX_BYTES)


def companion_selections(part: Slice, matrix: AlignedMatrix) -> tuple[Selection, Selection]:
    """Return the rows and the columns of a companion that the slice selects."""
    rows, columns = part.selections
    if matrix.part == "layers":
        return rows, columns
    selected = columns if matrix.part in ("varm", "varp") else rows
    if matrix.is_annotation:
        return selected, Selection.all(part.daf.axis_length(matrix.columns_axis))
    return selected, selected


def select_companions(location: str, companions: Companions, choice: AnnDataChoice) -> Selected:
    """Choose what comes along: what is named, and of the rest what fits the budget.

    The smallest come first, so that one large matrix does not keep out the others.

    Parameters
    ----------
    location
        The data set, as messages name it.

    Raises
    ------
    MatrixNotFoundError
        A key is unknown; the message lists those that exist.
    """
    max_bytes = choice.get("max_bytes", ANNDATA_MAX_BYTES)
    chosen: list[Companion] = []
    optional: list[Companion] = []
    for part in ANNDATA_PARTS:
        of_part = [companion for companion in companions.available if companion.matrix.part == part]
        part_choice = _by_part(choice)[part]
        if part_choice is None:
            optional += of_part
        elif part_choice is True:
            chosen += of_part
        elif part_choice is not False:
            by_key = {companion.matrix.key: companion for companion in of_part}
            for key in _keys(part, part_choice):
                if key not in by_key:
                    raise _unknown_key(location, companions, part, key, by_key)
                chosen.append(by_key[key])
    left_out = []
    free_bytes = max_bytes
    for companion in sorted(optional, key=lambda companion: companion.estimated_bytes):
        if free_bytes is None:
            chosen.append(companion)
        elif companion.estimated_bytes <= free_bytes:
            free_bytes -= companion.estimated_bytes
            chosen.append(companion)
        else:
            left_out.append(companion)
    return Selected(_in_order(companions, chosen), _in_order(companions, left_out))


def _in_order(companions: Companions, some: Iterable[Companion]) -> tuple[Companion, ...]:
    """Return some companions in the order of all, each once."""
    labels = {companion.label for companion in some}
    return tuple(c for c in companions.available if c.label in labels)


def _by_part(choice: AnnDataChoice) -> dict[str, Choice]:
    return {
        "layers": choice.get("layers"),
        "obsm": choice.get("obsm"),
        "varm": choice.get("varm"),
        "obsp": choice.get("obsp"),
        "varp": choice.get("varp"),
    }


def _keys(part: str, choice: str | Iterable[str]) -> list[str]:
    keys = [choice] if isinstance(choice, str) else choice
    if not isinstance(keys, Iterable):
        raise errors.InvalidInputError(
            f"{part}= is {choice!r}; pass True for all, False for none, or a list of keys"
        )
    return list(keys)


def _unknown_key(
    location: str, companions: Companions, part: str, key: str, known: Iterable[str]
) -> errors.DafError:
    """Return the error for a key that cannot come along."""
    if (part, key) in companions.unavailable:
        return companions.unavailable[part, key]
    main = companions.main
    listed = ", ".join(map(repr, known)) or "none"
    return errors.MatrixNotFoundError(
        f"{location}: the AnnData of a slice of {main.name!r} over the axes {main.rows_axis!r} and "
        f"{main.columns_axis!r} has no {part}[{key!r}]; {part} that it can have: {listed}"
    )


def to_anndata(part: Contained, choice: AnnDataChoice, record: Record | None) -> Any:
    """Return an AnnData with ``obs`` and ``var`` of the axis tables, and the chosen companions.

    A record of the provenance is put into ``uns``.
    """
    with part.unchanged_axes():
        contents = part.contents(choice, record)
        values = part.values()
        main = contents.main.restore(
            values.copy() if sp.issparse(values) else values, index=None, columns=None
        )
        adata = contents.without_matrices(X=main)
        for companion in contents.companions:
            contents.add_to(adata, companion)
    return adata


@dataclass(frozen=True, slots=True)
class Contents:
    """What an AnnData of a slice has beside its large matrices, which are gathered one by one."""

    main: AlignedMatrix
    """The matrix of the slice, which is ``X``."""
    companions: tuple[Companion, ...]
    """Those that come along."""
    obs: Any
    var: Any
    uns: Mapping[str, Any]
    gather: Callable[[AlignedMatrix], tuple[Any, Any]]
    """Reads the selected part of a companion; returns it, and the labels of its columns."""

    def without_matrices(self, **more: Any) -> Any:
        """Return an AnnData of ``obs``, ``var`` and ``uns``, and what else is given."""
        anndata = optional_import("anndata", extra="anndata")
        return anndata.AnnData(obs=self.obs, var=self.var, uns=dict(self.uns), **more)

    def with_annotations(self) -> Any:
        """Return an AnnData that has the companions with axes of their own, too."""
        adata = self.without_matrices()
        for companion in self.companions:
            if companion.matrix.is_annotation:
                self.add_to(adata, companion)
        return adata

    def add_to(self, adata: Any, companion: Companion) -> None:
        """Put the selected part of a companion into an AnnData."""
        matrix = companion.matrix
        getattr(adata, matrix.part)[matrix.key] = self.gathered(companion)

    def gathered(self, companion: Companion) -> Any:
        """Return the selected part of a companion, as AnnData had it."""
        matrix = companion.matrix
        frame = self.var if matrix.part in ("varm", "varp") else self.obs
        values, columns = self.gather(matrix)
        return matrix.restore(values, index=frame.index, columns=columns)


def contents_of(part: Slice, choice: AnnDataChoice, record: Record | None) -> Contents:
    """Return what comes along with a slice; reads ``obs`` and ``var``, and no matrix."""
    optional_import("anndata", extra="anndata")
    companions = find_companions(part)
    selected = select_companions(part.daf.location, companions, choice)
    warn_of_left_out(companions, selected, choice)
    frames, colours = {}, {}
    for name, axis, selection in zip(
        ("var", "obs"),
        (part.columns_axis, part.rows_axis),
        reversed(part.selections),
        strict=True,
    ):
        frames[name], of_axis = axis_frame(part.daf, axis, selection.positions, unreadable="warn")
        colours.update(of_axis)
    uns = colours if record is None else {**colours, KEY: as_json(record)}
    return Contents(
        companions.main,
        selected.chosen,
        frames["obs"],
        frames["var"],
        uns,
        partial(_gathered, part),
    )


def _gathered(part: Slice, matrix: AlignedMatrix) -> tuple[Any, Any]:
    axes = (matrix.rows_axis, matrix.columns_axis)
    columns = part.daf.axis_entries(matrix.columns_axis) if matrix.is_annotation else None
    layouts = plan_layouts(part.daf, axes, matrix.name, *companion_selections(part, matrix))
    return gather_first(layouts)[0], columns


def save_anndata(
    part: Contained, path: Path, file_format: str, choice: AnnDataChoice, record: Record | None
) -> None:
    """Write what `to_anndata` returns, as ``h5ad`` or ``zarr``."""
    with anndata_output(path, file_format) as prepared:
        report = write_anndata(to_anndata(part, choice, record), prepared, file_format=file_format)
    report.warn()


def anndata_output(path: Path, file_format: str) -> AbstractContextManager[Path]:
    """Hand out a path at which to prepare a file or a directory."""
    return output_directory(path) if file_format == "zarr" else output_path(path)


def describe(part: Slice) -> str:
    """Return a line that names what `to_anndata` yields by default; empty if that is unknown."""
    try:
        companions = find_companions(part)
    except errors.DafError:  # such as a closed session: a description never fails
        return ""
    selected = select_companions(part.daf.location, companions, {})
    keys: dict[str, list[str]] = {name: [] for name in ANNDATA_PARTS}
    for companion in selected.chosen:
        keys[companion.matrix.part].append(companion.matrix.key)
    listed = [f"X={part.name!r}", *(f"{name}={names!r}" for name, names in keys.items() if names)]
    line = f"to_anndata() has: {', '.join(listed)}"
    if selected.left_out:
        line += f"; left out for size: {_sizes(selected.left_out)}"
    if companions.unavailable:
        labels = (f"{name}[{key!r}]" for name, key in companions.unavailable)
        line += f"; not possible: {', '.join(labels)}"
    return line


def warn_of_left_out(companions: Companions, selected: Selected, choice: AnnDataChoice) -> None:
    """Warn of what is left out, unless its part was chosen by the caller."""
    for (part, key), error in companions.unavailable.items():
        if _by_part(choice)[part] in (None, True):
            _warn(f"{part}[{key!r}] is left out: {error}")
    if selected.left_out:
        first = selected.left_out[0].matrix
        max_bytes = choice.get("max_bytes", ANNDATA_MAX_BYTES)
        _warn(
            f"to_anndata leaves out {_sizes(selected.left_out)}, which max_bytes={max_bytes:,} has "
            f"no room for; name what you need ({first.part}=[{first.key!r}], on the command line: "
            f"--{first.part} {first.key}), or pass a larger max_bytes (None: no limit)"
        )


def _warn(text: str) -> None:
    warnings.warn(text, AnnDataWarning, stacklevel=5)


def _sizes(companions: Iterable[Companion]) -> str:
    return ", ".join(f"{c.label} (about {c.estimated_bytes:,} bytes)" for c in companions)
