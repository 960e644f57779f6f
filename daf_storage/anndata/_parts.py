"""The parts of an AnnData in a file, and the properties of a Daf data set that they are.

The names are those that an import gives.  What there is is found by metadata alone; the vectors of
a frame, and what is kept, are looked at when they are first listed.  AnnData's rows, dense or
compressed, are Daf's columns of the transpose: ``X`` of obs and var is the matrix of var and obs.
The frames of a file from before AnnData 0.7 are records, which are read into memory.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from daf_storage import errors
from daf_storage.anndata import _stored as elements
from daf_storage.anndata._encoding import encode_frame
from daf_storage.anndata._frames import Frame, MemoryFrame, StoredFrame, stored_frame
from daf_storage.anndata._stored import (
    MatrixHeader,
    Place,
    Property,
    array_property,
    matrix_property,
)
from daf_storage.base import AnyArray, StorageType, pandas
from daf_storage.data import layout
from daf_storage.stores import translated
from daf_storage.trees import Hdf5Tree, MemoryArray, Node, Tree

_LONG_BYTES = 8

_CATEGORIES: Final = "_categories"
_NAMES: Final = {"obs": ("obs_names", "row_names"), "var": ("var_names", "col_names")}
"""What the names are called in a group that does not say what it is."""
_OF_PLACES: Final = ("layers", "obsm", "varm", "obsp", "varp", "uns")
"""The parts whose values have keys."""
_NEIGHBORS: Final = ("distances", "connectivities")
GROUPS: Final = ("", "obs", "var", *_OF_PLACES, "raw", "raw/var", "raw/varm")
"""The groups whose children decide what properties there are."""
_PARTS: Final = frozenset({"X", *GROUPS, "raw.X", "raw.var", "raw.varm"})

Places = dict[str, Place]


@dataclass(frozen=True, slots=True)
class KeptPlace:
    """A part that Daf has no place for."""

    axes: tuple[str, ...]
    """To which axes it is aligned."""
    part: str
    key: str
    place: Place
    why: str


@dataclass(slots=True)
class Parts:
    """The parts of an AnnData: where each lies in a file, or what it is."""

    obs: Frame
    var: Frame
    places: dict[str, Places]
    """Of each other part, such as ``raw.varm``, its values by their keys; the key of X is empty."""
    raw_var: Frame | None = None
    unknown: tuple[str, ...] = ()
    """Groups and arrays that AnnData does not know."""
    damaged: Mapping[str, str] = field(default_factory=dict)
    """What is wrong with the groups that cannot be read."""


def is_anndata(tree: Tree) -> bool:
    """Return whether a tree holds an AnnData; by its root alone."""
    root = tree.node("")
    if root is None or root.kind != "group":
        return False
    encoding = elements.encoding_of(root)
    if encoding:  # a MuData has obs and var too
        return encoding == "anndata"
    has_frames = all(tree.kind(part) is not None for part in ("obs", "var"))
    return has_frames and tree.kind("mod") is None  # the first MuData had no encoding either


def anndata_parts(tree: Tree) -> Parts:
    """Return the parts of an AnnData, by metadata.

    Raises
    ------
    FormatError
        Its obs or var cannot be read.
    """
    children, damaged = tree.children(""), dict[str, str]()
    places = {part: _places(tree, part, damaged) for part in _OF_PLACES}
    uns = places["uns"]
    obs, var = (_frame(tree, part, uns) for part in ("obs", "var"))
    for key in (obs.of_uns | var.of_uns) & uns.keys():
        del uns[key]
    raw = "raw." if "raw.X" in children else "raw/"
    raw_var = _raw_var(tree, raw, damaged)
    places["X"] = _main(tree, "X")
    if raw_var is not None:
        places["raw.X"] = _main(tree, f"{raw}X")
        places["raw.varm"] = _places(tree, f"{raw}varm", damaged)
    _add_neighbors(tree, places)
    return Parts(obs, var, places, raw_var, tuple(sorted(set(children) - _PARTS)), damaged)


def parts_of_object(adata: Any, tree: Tree) -> Parts:
    """Return the parts of an AnnData in memory; of one that is backed, ``X`` lies in its file."""
    raw = adata.raw
    places = {part: _values(getattr(adata, part)) for part in _OF_PLACES}

    def main(path: str, owner: Any) -> Places:
        if isinstance(tree, Hdf5Tree) and tree.kind(path) is not None:
            return _main(tree, path)
        return {} if owner.X is None else {"": Place("", owner.X)}

    places["X"] = main("X", adata)
    if raw is not None:
        places |= {"raw.X": main("raw/X", raw), "raw.varm": _values(raw.varm)}
    return Parts(
        MemoryFrame(adata.obs, part="obs"),
        MemoryFrame(adata.var, part="var"),
        places,
        None if raw is None else MemoryFrame(raw.var, part="raw.var"),
    )


def _frame(tree: Tree, path: str, uns: Iterable[str] = ()) -> Frame:
    """Return a DataFrame; one from before AnnData 0.7 in memory, with its categories in ``uns``.

    Such a one is an array of records, or a group that does not say what it is.
    """
    node = tree.node(path)
    if node is None:
        raise errors.CorruptDataError(
            f"{tree.location}: this AnnData has no {path}; is it complete?"
        )
    if node.kind == "array":
        _check_readable(node)
    elif node.attribute("column-order") is not None:
        return stored_frame(tree, path)
    if not isinstance(tree, Hdf5Tree):
        raise errors.UnsupportedDataError(
            f"{tree.location}: a Zarr directory from before AnnData 0.7 is not read in place; "
            "read it with anndata.read_zarr, and pass the result to from_anndata"
        )
    frame = _old_frame(tree, path)
    keys = (key for key in uns if key.endswith(_CATEGORIES))
    of_uns = {key for key in keys if _set_categories(tree, frame, key)}
    return MemoryFrame(frame, part=path.replace("/", "."), of_uns=of_uns)


def _check_readable(node: Node) -> None:
    """Raise if an array is one because its metadata cannot be read; Daf need not have its type."""
    with suppress(errors.UnsupportedDataError):
        node.array()


def _raw_var(tree: Tree, raw: str, damaged: dict[str, str]) -> Frame | None:
    if raw == "raw/" and "var" not in _places(tree, "raw", damaged):
        return None
    try:
        return _frame(tree, "raw.var") if raw == "raw." else stored_frame(tree, "raw/var")
    except errors.CorruptDataError as error:
        damaged["raw"] = str(error)
        return None


def _main(tree: Tree, path: str) -> Places:
    """Return the place of a matrix, also of a damaged one: whoever uses it gets the error."""
    try:
        node = tree.node(path)
        is_none = not tree.children(path) if node is None else elements.encoding_of(node) == "null"
    except errors.FormatError:
        is_none = False
    return {} if is_none else {"": Place(path)}


def _places(tree: Tree, path: str, damaged: dict[str, str]) -> Places:
    """Return what is in a group, or the fields of old records; if it cannot be listed, note why."""
    try:
        node = tree.node(path)
        if node is not None and node.kind == "array":
            _check_readable(node)
            return _values(_records(tree, path))
        children = tree.children(path)
    except errors.CorruptDataError as error:
        damaged[path] = str(error)
        return {}
    if node is None and children:
        damaged[path] = (
            f"{tree.location}: {path}: its metadata are missing, and what it has is there"
        )
        return {}
    return {key: Place(posixpath.join(path, key)) for key in children}


def _add_neighbors(tree: Tree, places: dict[str, Places]) -> None:
    """Take the matrices of neighbours from where AnnData 0.7 kept them."""
    uns = places["uns"]
    if "neighbors" not in uns or tree.kind("uns/neighbors") != "group":
        return
    for key, place in _places(tree, "uns/neighbors", {}).items():
        node = tree.node(place.path)
        if key in _NEIGHBORS and node is not None and elements.sparse_kind(node):
            places["obsp"].setdefault(key, place)
            others = uns["neighbors"].without
            uns["neighbors"] = Place("uns/neighbors", without=(*others, key))


def _readable(tree: Tree, path: str) -> AbstractContextManager[None]:
    """Let what h5py, numpy and pandas raise of an old part be a `CorruptDataError`."""
    caught, what = (OSError, TypeError, ValueError, IndexError), f"{tree.location}: {path}"
    after = "; is the file complete?"
    return translated(caught, errors.CorruptDataError, f"{what} cannot be read", after)


def _old_frame(tree: Tree, path: str) -> Any:
    """Return a DataFrame of records, or of a group that does not say what it is."""
    is_group = tree.kind(path) != "array"
    places = _places(tree, path, {}) if is_group else {}
    columns = {key: place.read(tree) for key, place in places.items()}
    columns = columns if is_group else _records(tree, path)
    with _readable(tree, path):
        frame = pandas(extra="anndata").DataFrame(columns)
        names = [key for key in _NAMES[path.rpartition(".")[2]] if key in places]
        if names:
            return frame.set_index(names[0]).rename_axis(None)
        return (
            frame.set_axis(frame.index.map(str)) if is_group else frame.set_index(frame.columns[0])
        )


def _records(tree: Tree, path: str) -> dict[str, Any]:
    """Return the fields of an array of records, with text for byte strings; of others none."""
    with _readable(tree, path), elements.element(tree, path) as stored:
        names = stored.dtype.names or ()
        records = stored[()] if names else {}
        return {name: _text(records[name]) for name in names}


def _text(values: Any) -> Any:
    return elements.names_of(values) if values.dtype.kind in "SO" else values


def _set_categories(tree: Tree, frame: Any, key: str) -> bool:
    """Make a categorical of the column whose categories are in uns; say if there is one."""
    name, path = key.removesuffix(_CATEGORIES), f"uns/{key}"
    if name not in frame or frame[name].dtype.kind not in "iu" or tree.kind(path) != "array":
        return False
    with _readable(tree, path):
        with elements.element(tree, path) as stored:
            categories = _text(np.ravel(stored[()]))
        is_coded = bool((frame[name] < len(categories)).all())  # else it is of the other frame
        if is_coded:
            frame[name] = pandas(extra="anndata").Categorical.from_codes(frame[name], categories)
    return is_coded


def _values(values: Mapping[str, Any]) -> Places:
    """Return places of values that were read; anything in the file may change them."""
    return {key: Place("", value) for key, value in named(values).items()}


def named(layers: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the layers of an AnnData; from anndata 0.13 on, X is among them without a name."""
    return {key: value for key, value in layers.items() if key is not None}


# A matrix of Cell Ranger

_MATRIX: Final = frozenset({"barcodes", "data", "indices", "indptr", "shape"})
_SCANPY_NAMES: Final = {
    "name": "gene_symbols",
    "gene_names": "gene_symbols",
    "feature_type": "feature_types",
}
"""What lists of features are called here, as scanpy calls them; others keep their names."""


def cell_ranger_groups(tree: Tree) -> list[str]:
    """Return the groups that are matrices of Cell Ranger; an empty name for the root itself."""
    if not isinstance(tree, Hdf5Tree) or tree.kind("") != "group":
        return []

    def is_matrix(group: str) -> bool:
        names = tree.children(group).keys()
        return names >= _MATRIX and bool({"features", "genes"} & names)

    children = tree.children("")
    groups = [name for name, kind in children.items() if kind == "group"]
    return [""] if is_matrix("") else [name for name in groups if is_matrix(name)]


def cell_ranger_parts(tree: Tree) -> Parts:
    """Return the parts of the AnnData that a matrix of Cell Ranger is."""
    groups = cell_ranger_groups(tree)
    if len(groups) > 1:
        raise errors.NotADafError(
            f"{tree.location}: a file of Cell Ranger with the matrices of {len(groups)} genomes, "
            f"{', '.join(groups)}; open one of them: {tree.location}#/{groups[0]}"
        )
    [group] = groups
    is_new = "features" in tree.children(group)
    features = posixpath.join(group, "features") if is_new else group
    index = posixpath.join(features, "id" if is_new else "genes")
    barcodes = posixpath.join(group, "barcodes")
    shape = elements.array_at(tree, posixpath.join(group, "shape")).read().reshape(-1).tolist()
    n_barcodes = _length(tree, barcodes)
    if len(shape) != 2 or shape[1] != n_barcodes:
        raise errors.CorruptDataError(
            f"{tree.location}: the matrix of Cell Ranger has the shape {shape}, and {n_barcodes} "
            "barcodes; is the file complete?"
        )
    others = {*_MATRIX, "id", "genes", "gene_names", "_all_tag_keys"}
    symbols = [] if is_new else [("gene_symbols", posixpath.join(group, "gene_names"))]
    of_features = _lists(tree, features, shape[0], others) if is_new else symbols
    _, dtype = elements.shape_and_dtype(tree, posixpath.join(group, "data"))
    header = MatrixHeader("csr", (shape[1], shape[0]), dtype, elements.dtype_problem(dtype))
    return Parts(
        StoredFrame(tree, group, barcodes, _lists(tree, group, shape[1], others), part="obs"),
        StoredFrame(tree, features, index, of_features, part="var"),
        {"X": {"": Place(group, given_header=header)}},
    )


def _lists(tree: Tree, group: str, length: int, others: set[str]) -> list[tuple[str, str]]:
    """Return where lists of a length are in a group, by the names that they have here."""
    names = [name for name, kind in tree.children(group).items() if kind == "array"]
    paths = {name: posixpath.join(group, name) for name in names if name not in others}
    return [
        (_SCANPY_NAMES.get(name, name), path)
        for name, path in paths.items()
        if _length(tree, path) == length
    ]


def _length(tree: Tree, path: str) -> int | None:
    """Return the length of a list; None for what is none."""
    shape, _ = elements.shape_and_dtype(tree, path)
    return shape[0] if len(shape) == 1 else None


# Values of obsm and varm


@dataclass(frozen=True, slots=True)
class Annotation:
    """A value of ``obsm`` or ``varm`` as a matrix to an axis of its own."""

    labels: list[str]
    """The entries of that axis."""
    note: dict[str, Any]
    """What restores the value."""
    header: MatrixHeader
    """How it is stored; a DataFrame is put together by rows."""


def annotation_at(tree: Tree, place: Place) -> Annotation:
    """Return what a value of ``obsm`` or ``varm`` becomes, by its metadata.

    Raises
    ------
    UnsupportedInputError
        Daf has no matrix that says all of it; the message says why.
    """
    if hasattr(place.value, "iloc"):
        matrix, labels, note = encode_frame(place.value)
        header = MatrixHeader("dense", (matrix.shape[0], len(labels)), matrix.dtype)
        return Annotation(labels, note, header)
    node = tree.node(place.path) if place.is_stored else None
    if node is not None and elements.encoding_of(node) == "dataframe":
        return _frame_annotation(tree, place, elements.names_of(node.attribute("column-order")))
    header = place.header(tree)
    if header.problem:
        raise errors.UnsupportedInputError(header.problem)
    note = {"format": header.layout, "dtype": str(header.restored_dtype)}
    note |= {"is_array": True} if header.is_array else {}
    return Annotation([str(n) for n in range(header.shape[1])], note, header)


def _frame_annotation(tree: Tree, place: Place, columns: list[str]) -> Annotation:
    """Return what a DataFrame of numbers becomes."""
    dtypes = {}
    for name in columns:
        path = posixpath.join(place.path, name)
        node = tree.node(path)
        if node is None or node.kind != "array":
            raise errors.UnsupportedInputError(
                "a DataFrame of which a matrix of numbers does not say all"
            )
        dtypes[name] = elements.shape_and_dtype(tree, path)[1]
    frame: Any = pandas(extra="anndata").DataFrame(
        {name: np.empty(0, dtype) for name, dtype in dtypes.items()}
    )
    matrix, labels, note = encode_frame(frame)
    is_long = any(dtype.itemsize == _LONG_BYTES and dtype.kind in "iu" for dtype in dtypes.values())
    if is_long and matrix.dtype.kind == "f":  # integers may be too large for fractions
        matrix, labels, note = encode_frame(place.read(tree))
    height = elements.shape_and_dtype(tree, posixpath.join(place.path, columns[0]))[0][0]
    header = MatrixHeader("dense", (height, len(columns)), matrix.dtype)
    return Annotation(labels, note, header)


def annotation_property(
    tree: Tree, place: Place, annotation: Annotation, length: Callable[[], int]
) -> Property:
    """Return the matrix of a value of ``obsm`` or ``varm``, of an axis of some length."""
    header = annotation.header
    if "frame" not in annotation.note:
        n_columns = len(annotation.labels)
        return matrix_property(tree, place, header, lengths=lambda: (length(), n_columns))
    kind = StorageType.of(header.dtype)

    def values() -> AnyArray:
        return np.asarray(place.read(tree).to_numpy(), kind.dtype)

    return array_property(
        (place.path,), lambda _: MemoryArray(values, shape=header.shape, storage_type=kind)
    )


def path_of_matrix(axes: tuple[str, str], name: str, header: MatrixHeader) -> str:
    """Return the path of a matrix: the axis whose entries are stored one by one comes last.

    Parameters
    ----------
    axes
        Those of its rows and its columns, as AnnData has it.
    """
    return layout.matrix_path(*(axes if header.layout == "csc" else axes[::-1]), name)
