"""Views: a part of a tree or data set under other names, axes with some of their entries.

Reads nothing of its own: every array is one of the base, or a part of it.  Where the selected
entries are the stored columns of a sparse matrix, only ``colptr`` is made; elements are read from
the file when they are asked for.  Where they are its rows, all row numbers of the stored columns
that are shown have to be looked at once, to know how many elements there are.

The rules are those of the reference: a key may have ``*`` for any name; its value is ``=`` for the
same name, None to hide, or the name in the base; the last that matches counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage._lazy import sp
from daf_storage.base import (
    RESERVED_VECTORS,
    AnyArray,
    Span,
    column_blocks,
    name_problem,
    unique_name,
)
from daf_storage.combined._chains import closing
from daf_storage.data import (
    ENTRIES_OF,
    DafReader,
    EntrySelection,
    MadeNode,
    Origin,
    StoredMatrix,
    SubsetArray,
    check_reader,
    check_rows,
    entry_positions,
    kept,
    layout,
    required_array,
    subset_vector,
    with_arrays,
)
from daf_storage.trees import MemoryArray, Node, NodeKind, Ranges, StoredArray, Tree, memory_array

Pairs: TypeAlias = list[tuple[Any, str | None]]

SAME: Final = "="
"""As a value: the same name as in the base."""

_KEY_PARTS: Final = (1, 2, 3)
_VECTOR_PARTS: Final = 2
_SHOW_ALL: Final = tuple(((layout.ANY,) * parts, SAME) for parts in _KEY_PARTS)


class Rules(Protocol):
    """Which scalars, vectors and matrices are shown, and under which names."""

    def base_name(self, axes: tuple[str, ...], name: str) -> str | None:
        """Return what a property of the view is called in the base; None if it is hidden."""

    def names(self, axes: tuple[str, ...], in_base: Collection[str]) -> Iterable[str]:
        """Return the names of the properties that are shown of those that the base has."""


@dataclass(frozen=True, slots=True)
class DataRules:
    """`Rules` that were given one by one."""

    rules: tuple[tuple[tuple[str, ...], str | None], ...]
    """Keys with what they mean, in their order."""

    def base_name(self, axes: tuple[str, ...], name: str) -> str | None:
        """Return what a property of the view is called in the base; None if it is hidden."""
        keys = {(*axes, name), (*axes[::-1], name)}
        for rule, value in reversed(self.rules):
            if any(layout.matches(rule, key) for key in keys):
                return name if value == SAME else value
        return None

    def names(self, axes: tuple[str, ...], in_base: Collection[str]) -> list[str]:
        """Return the names of the properties that are shown of those that the base has."""
        renamed = [key[-1] for key, value in self.rules if value not in (SAME, None)]
        in_view = dict.fromkeys([*in_base, *renamed])
        return [name for name in in_view if self.base_name(axes, name) in in_base]


def data_rules(data: Mapping[Any, Any] | Sequence[tuple[Any, Any]]) -> DataRules:
    """Return rules after checking their form.

    Parameters
    ----------
    data
        A mapping changes what is shown by default, which is all, and its keys without ``*`` count
        more.  A list of pairs says all that is shown, and the last that matches counts.
    """
    rules: list[tuple[tuple[str, ...], str | None]] = []
    for key, value in in_order(data):
        parts = key if isinstance(key, tuple) else (key,)
        if len(parts) != 1 or not isinstance(parts[0], str):  # a name alone may be in a tuple
            layout.check_key(key, "a view's data=")
        if len(parts) == _VECTOR_PARTS and RESERVED_VECTORS & {parts[-1], value}:
            raise errors.InvalidNameError(
                f"a view's data= has {value!r} for {key!r}: the vectors 'name' and 'index' always "
                "exist, and are shown under these names"
            )
        is_plain = value is None or value == SAME
        if not is_plain and (layout.ANY in parts or name_problem(value) is not None):
            raise errors.InvalidInputError(
                f"a view's data= has {value!r} for {key!r}; a value is '=' to show it, None to "
                "hide it, or, of a key without '*', its name in the base"
            )
        rules.append((parts, value))
    return DataRules((*(_SHOW_ALL if isinstance(data, Mapping) else ()), *rules))


def in_order(given: Mapping[Any, Any] | Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return pairs in the order in which they count: of a mapping, those with ``*`` first."""
    if isinstance(given, Mapping):
        names = {key: key if isinstance(key, tuple) else (key,) for key in given}
        return sorted(given.items(), key=lambda pair: -names[pair[0]].count(layout.ANY))
    return [(key, value) for key, value in given]


def parse_view(written: object, *, what: str) -> tuple[Pairs | None, Pairs | None]:
    r"""Return the axes and the data of a view; None where nothing is said.

    Parameters
    ----------
    what
        What messages call it.

    Raises
    ------
    CorruptDataError
        It is not what other implementations write.

    Examples
    --------
    >>> parse_view(r'{"axes": [{"obs": "cell"}], "data": [{"(\"obs\", \"*\")": "="}]}', what="x")
    ([('obs', 'cell')], [(('obs', '*'), '=')])
    """
    try:
        view: dict[str, Any] = json.loads(written) if isinstance(written, str) else {"": written}
        if view.keys() - {"axes", "data"}:
            raise KeyError(*view)
        axes, data = (_pairs(view.get(part)) for part in ("axes", "data"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise errors.CorruptDataError(
            f"{what} is {written!r:.80}; it has to be a JSON object with 'axes' and 'data', lists "
            "of objects whose keys are names, or tuples of names, and whose values are names, '=' "
            "or null"
        ) from error
    return axes, data


def _pairs(listed: Any) -> Pairs | None:
    if listed is None:
        return None
    maps = listed if isinstance(listed, list) else [listed]
    return [
        (_key(key), None if value is None else str.strip(value))
        for each in maps
        for key, value in each.items()
    ]


def _key(key: str) -> str | tuple[str, ...]:
    if not key.startswith("("):
        return key
    names = json.loads(f"[{key.removeprefix('(').removesuffix(')').rstrip(', ')}]")
    return tuple(map(str, names))


ViewAxes: TypeAlias = Mapping[str, Any] | Sequence[tuple[str, Any]]
"""By its name in the view: what each axis is."""


@dataclass(frozen=True, slots=True, eq=False)
class ViewAxis:
    """One axis of a view."""

    name: str
    """Its name in the view."""
    base: str
    """Its name in the base."""
    entries: EntrySelection | None
    """The entries that are shown; None for all, in their order."""
    node: Node | None
    """The entries of the base that the positions are of; None where all are shown."""

    @property
    def is_as_it_is(self) -> bool:
        """Whether it has the same name and the same entries as in the base."""
        return self.name == self.base and self.entries is None


def view_axes(daf: DafReader, axes: ViewAxes) -> dict[str, ViewAxis]:
    """Return the axes of a view by name.

    Raises
    ------
    AxisNotFoundError, EntryNotFoundError
        The base has no such axis or entry.
    LengthError, DuplicateEntriesError, InvalidInputError
        A mask is not as long as its axis; an entry is chosen twice; or a value makes no sense.
    """
    available = sorted(daf.axes_set())
    shown: dict[str, Any] = dict.fromkeys(available, SAME) if isinstance(axes, Mapping) else {}
    for name, value in in_order(axes):
        if not isinstance(name, str):
            raise errors.InvalidInputError(f"a view's axes= has the key {name!r}, which is no name")
        if name == layout.ANY:
            if value is not None and not (isinstance(value, str) and value == SAME):
                raise errors.InvalidInputError(
                    f"a view's axes= has {value!r} for '*'; that is '=' to show all axes, or None "
                    "to hide all"
                )
            shown = dict.fromkeys(available, SAME) if value is not None else {}
        elif value is None:
            if isinstance(axes, Mapping) and name not in available:
                raise errors.axis_not_found(daf.location, name, available)
            shown.pop(name, None)
        else:
            shown[name] = value
    return {name: _axis(daf, name, value) for name, value in shown.items()}


def _axis(daf: DafReader, name: str, value: Any) -> ViewAxis:
    problem = name_problem(name)
    if problem is not None:
        raise errors.InvalidNameError(f"a view's axis {name!r} {problem}")
    base, chosen = name, value
    if isinstance(value, str):
        base, chosen = (name if value == SAME else value), None
    elif isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
        base, chosen = value
    if not daf.has_axis(base):
        error = errors.axis_not_found(daf.location, base, daf.axes_set())
        if isinstance(value, str) and not value.isidentifier():
            text = f"{error}; a predicate is for the view of a session: connect(daf).view(...)"
            raise errors.with_message(error, text)
        raise error
    if chosen is None:
        return ViewAxis(name, base, None, None)
    node = daf.tree.node(layout.axis_path(base))
    what = f"{daf.location}: the entries of axis {base!r} for a view"
    positions = entry_positions(daf, base, chosen, what=what)
    entries = EntrySelection(positions, daf.axis_length(base))
    return ViewAxis(name, base, None if entries.is_all else entries, node)


def subset_matrix(
    stored: StoredMatrix, rows: EntrySelection | None, columns: EntrySelection | None
) -> dict[str, StoredArray]:
    """Return the arrays of a sparse matrix of some rows and some columns, as they are stored.

    The elements in some rows are read at once.
    """
    indptr, chosen = stored.colptr(), slice(None) if columns is None else columns.positions
    counts = np.diff(indptr)[chosen]
    picks = Ranges.joined(indptr[:-1][chosen], counts)
    arrays: dict[str, StoredArray] = {
        name: SubsetArray(array, picks)
        for name, array in stored.arrays().items()
        if name != "colptr"
    }
    if rows is not None:
        found = _filtered(stored, arrays, rows, np.append(0, np.cumsum(counts)))
        number_type = rows.number_type(arrays["rowval"].info.storage_type.dtype)
        counts, values = (
            np.diff(found.indptr),
            [(found.indices + 1).astype(number_type), found.data],
        )
        arrays = dict(zip(arrays, map(memory_array, values), strict=False))
    colptr = np.ones(counts.size + 1, stored.entries("colptr").info.storage_type.dtype)
    colptr[1:] = np.cumsum(counts) + 1
    return {"colptr": memory_array(colptr), **arrays}


def _filtered(
    stored: StoredMatrix,
    arrays: Mapping[str, StoredArray],
    rows: EntrySelection,
    pointers: AnyArray,
) -> Any:
    """Return the elements in some rows, as a ``csr_array`` with a row for each stored column."""
    blocks = [sp.csr_array((0, rows.size), dtype=stored.info.storage_type.dtype)]
    for span in column_blocks(pointers):
        begins = pointers[span.start : span.stop + 1]
        elements = Span(int(begins[0]), int(begins[-1]))
        numbers, *values = (array.read_rows(elements) for array in arrays.values())
        check_rows(numbers, rows.length, stored.what)
        parts = ((values or [numbers > 0])[0], numbers.astype(np.int64) - 1, begins - begins[0])
        block = sp.csr_array(parts, shape=(span.size, rows.length))[:, rows.positions]
        block.sort_indices()
        blocks.append(block)
    return sp.vstack(blocks, format="csr")


_NOTES: Final = layout.scalar_path("anndata_notes")
_NAMES_OF_AXES: Final = (_NOTES, layout.scalar_path("obs_is"), layout.scalar_path("var_is"))
"""Scalars of an AnnData import that name axes."""


class ViewTree:
    """A part of a tree under other names.

    Parameters
    ----------
    base
        The tree that is shown.
    axes
        The axes by their names in the view.
    rules
        Which scalars, vectors and matrices are shown.
    """

    def __init__(self, base: Tree, axes: Mapping[str, ViewAxis], rules: Rules) -> None:
        self._base = base
        self._reader = DafReader(base, name="")
        self._axes = dict(axes)
        self._rules = rules
        self._token = object()
        self._is_of_whole_axes = all(axis.is_as_it_is for axis in axes.values())
        self._subsets: dict[str, tuple[Node, dict[str, StoredArray]]] = {}

    @property
    def location(self) -> str:
        """Where the tree is, for messages."""
        return f"{self._base.location} (view)"

    @property
    def index_tree(self) -> ViewTree:
        """The tree of the indexes: this one, which has those of axes that are as in the base."""
        return self

    def kind(self, path: str) -> NodeKind | None:
        """Return what is at ``path``; None if nothing is."""
        base_path = self._base_path(path)
        return None if base_path is None else self._tree(path).kind(base_path)

    def children(self, path: str) -> dict[str, NodeKind]:
        """Return the names directly below a group, and what each is."""
        base_path = self._base_path(path)
        if base_path is None:
            return {}
        group, axes, depth = layout.split(path)
        names: Iterable[str] = self._axes
        if depth is None or len(axes) > depth:
            shown = self._tree(path).children(base_path)
            if group != layout.INDEXES:
                return shown
            names = shown
        elif len(axes) == depth and group != layout.AXES:
            is_of_matrices = group == layout.MATRICES
            found = self._matrices(*axes) if is_of_matrices else self._base.children(base_path)
            names = self._rules.names(tuple(axes), found)
        kinds = {name: self.kind(f"{path}/{name}") for name in names}
        return {name: kind for name, kind in kinds.items() if kind is not None}

    def identity(self, path: str) -> Hashable:
        """Return a value that changes whenever something at or below ``path`` does."""
        return self._identity(path, lambda tree, base_path: tree.identity(base_path))

    def version(self, path: str) -> Hashable:
        """Return what differs whenever what is shown at ``path`` does in the base.

        Which entries are shown is not in it: that is of the view.
        """
        base_path = self._base_path(path)
        return None if base_path is None else self._tree(path).version(base_path)

    def listing_identity(self, path: str) -> Hashable:
        """Return a value that changes whenever a child of ``path`` comes, goes or is replaced."""
        return self._identity(path, lambda tree, base_path: tree.listing_identity(base_path))

    def node(self, path: str) -> Node | None:
        """Return the group or array at ``path``, pinned.

        Raises
        ------
        LabelsError
            The entries of its axis in the base are not those any more of which some are shown.
        """
        base_path = self._base_path(path)
        if base_path is None:
            return None
        node = self._tree(path).node(base_path)
        if node is None:
            return None
        axes = self._axes_of(path)
        for axis in axes:
            now = self._base.node(layout.axis_path(axis.base))
            if axis.node is not None and (now is None or axis.node.place != now.place):
                raise errors.LabelsError(
                    f"{self.location}: axis {axis.base!r} was replaced or reordered since the view "
                    "was made of some of its entries; make the view again"
                )
        is_whole = all(axis.entries is None for axis in axes)
        is_whole = is_whole and path not in _NAMES_OF_AXES
        if is_whole and (self._is_of_whole_axes or not path.startswith(f"{layout.VECTORS}/")):
            return node
        shown = node if is_whole else with_arrays(node, self._arrays(path, node, axes))
        attribute = partial(self._attribute, node)
        return MadeNode(shown.kind, (node,), shown.array, attribute, self._token)

    def _tree(self, path: str) -> Tree:
        is_index = path.partition("/")[0] == layout.INDEXES
        return self._base.index_tree if is_index else self._base

    def _base_path(self, path: str) -> str | None:
        """Return where something is in the base; None if it is not shown.

        No matrix of two parts of one axis is: its two orientations would be two matrices.
        """
        group, names, depth = layout.split(path)
        if not names:
            return path
        if depth is None:
            return path if group != layout.INDEXES or self._shows_index(names) else None
        if group == layout.AXES:
            axis = self._axes.get(names[0])
            return None if axis is None else "/".join([layout.AXES, axis.base, *names[1:]])
        axes, below = names[:depth], names[depth:]
        shown = [self._axes.get(axis) for axis in axes]
        base_axes = [axis.base for axis in shown if axis is not None]
        if len(set(base_axes)) < len(set(axes)):
            return None
        if below:
            name = self._rules.base_name(tuple(axes), below[0])
            is_matrix = group == layout.MATRICES
            if name is None or (is_matrix and name not in self._matrices(*axes)):
                return None
            below = [name, *below[1:]]
        return "/".join([group, *base_axes, *below])

    def _matrices(self, rows: str, columns: str) -> dict[str, NodeKind]:
        """Return the matrices of the base that are shown in an orientation, by their names there.

        Of a sparse one that is stored in both, of which entries are selected, only the one whose
        stored columns these are: the other would have to be read as a whole.
        """
        row_axis, column_axis = self._axes[rows], self._axes[columns]
        stored = self._base.children(layout.matrices_path(row_axis.base, column_axis.base))
        if not _is_costlier(row_axis, column_axis):
            return stored
        path = layout.matrices_path(column_axis.base, row_axis.base)
        flipped = self._base.children(path)
        return {
            name: kind
            for name, kind in stored.items()
            if kind == "array" or flipped.get(name) != "group"
        }

    def _shows_index(self, names: list[str]) -> bool:
        """Return whether the indexes of a vector are of what is shown."""
        axis = self._axes.get(names[0])
        columns = [name for name in (*names[1:2], *names[3:4]) if name != "name"]
        return (axis is not None and axis.is_as_it_is) and all(
            self._rules.base_name((names[0],), name) == name for name in columns
        )

    def _axes_of(self, path: str) -> list[ViewAxis]:
        """Return the axes along which a property is shown; the axis itself of its entries."""
        group, *names = path.split("/")
        if group == layout.AXES:
            return [self._axes[name] for name in names[:1]]
        place = layout.property_of(path)
        return [] if place is None else [self._axes[axis] for axis in place.axes]

    def _arrays(self, path: str, node: Node, axes: list[ViewAxis]) -> dict[str, StoredArray]:
        """Return the arrays of what is shown of a property; remembered until that is replaced."""
        cached = self._subsets.get(path)
        if cached is not None and cached[0].identity == node.identity:
            return cached[1]
        made = self._made(path, node, axes)
        self._subsets[path] = node, made
        return made

    def _made(self, path: str, node: Node, axes: list[ViewAxis]) -> dict[str, StoredArray]:
        if path in _NAMES_OF_AXES:
            stored = required_array(node, "", path)
            is_text = stored.info.storage_type.is_string and stored.info.size == 1
            return {"": MemoryArray(partial(self._recorded, path, stored)) if is_text else stored}
        where, chosen = str(self._base_path(path)), [axis.entries for axis in axes]
        first, *others = chosen
        if path.startswith(f"{kept.GROUP}/"):
            whole = required_array(node, "", path)
            image = partial(kept.image_of_entries, self._base, where, whole, chosen)
            return {"": MemoryArray(image, sources=(whole,))}
        if path.startswith(f"{layout.AXES}/"):
            return {"": SubsetArray(required_array(node, "", path), first)}
        names = where.split("/")[1:]
        if others:
            matrix = self._reader.open_matrix(*names)
            if matrix.info.is_sparse:
                return subset_matrix(matrix, first, others[0])
            return {"": SubsetArray(matrix.dense(), others[0], first)}
        vector = self._reader.open_vector(*names)
        if first is not None and vector.info.is_sparse:
            return subset_vector(vector, first)
        return {"": SubsetArray(vector.dense(), first)}

    def _recorded(self, path: str, stored: StoredArray) -> pa.Array:
        """Return what an import recorded, with the names of the view."""
        text = stored.read_strings()[0].as_py()
        if path != _NOTES:
            return pa.array([self._axis_name(text)])
        with suppress(ValueError, AttributeError, LookupError, TypeError, RecursionError):
            notes = json.loads(text, object_hook=self._with_axis)
            noted, mudata = notes.get("axes", {}), notes.get("mudata", {})
            notes["axes"] = {
                axis.name: {**of, "columns": self._columns(axis, of.get("columns", []))}
                for axis, of in self._shown(noted)
            }
            shown = self._shown(mudata.get("columns", {}))
            mudata["columns"] = {axis.name: self._columns(axis, rules) for axis, rules in shown}
            text = json.dumps(notes, separators=(",", ":"))
        return pa.array([text])

    def _columns(self, axis: ViewAxis, noted: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the rules of an axis, also of vectors that have another name in the view."""
        vectors, key = self._base.children(layout.vectors_path(axis.base)), (axis.name,)
        shown = {name: self._rules.base_name(key, name) for name in self._rules.names(key, vectors)}
        renamed = [
            {**rule, "column": name, "vector": name}
            for rule in noted
            for name, base in shown.items()
            if base == rule.get("vector") != name
        ]
        masks = {base: name for name, base in reversed(shown.items())}
        masks |= {name: name for name, base in shown.items() if name == base}
        return [
            {**rule, **{key: masks.get(rule[key], "") for key in ("is_missing",) if key in rule}}
            for rule in (*noted, *renamed)
        ]

    def _shown(self, noted: Mapping[str, Any]) -> list[tuple[ViewAxis, Any]]:
        """Return what was noted of the axes that are shown."""
        every, given = self._axes.values(), dict(noted)  # which fails if it is something else
        return [(axis, given[axis.base]) for axis in every if axis.base in given]

    def _with_axis(self, notes: dict[str, Any]) -> dict[str, Any]:
        """Return a rule or note with the name of its axis; of a hidden one it has the entries."""
        axis = notes.get("axis")
        if not isinstance(axis, str):
            return notes
        name, array = self._axis_name(axis), None
        if not name and notes.get("kind") == "categorical":
            array = layout.open_array(self._base, layout.axis_path(axis))
        listed = {} if array is None else {"categories": array.read_strings().to_pylist()}
        return {**notes, **listed, "axis": name}

    def _axis_name(self, base: str) -> str:
        """Return what an axis of the base is called in the view; empty if it is hidden."""
        names = [axis.name for axis in self._axes.values() if axis.base == base] or [""]
        return base if base in names else names[0]

    def _attribute(self, node: Node, name: str) -> Any:
        """Return an attribute of a node of the base, with the names of axes that are whole here."""
        value = node.attribute(name)
        if name != ENTRIES_OF or not isinstance(value, str):
            return value
        shown = self._axes.values()
        return next(
            (each.name for each in shown if (each.base, each.entries) == (value, None)), None
        )

    def _identity(self, path: str, of: Callable[[Tree, str], Hashable]) -> Hashable:
        base_path = self._base_path(path)
        if base_path is None:
            return None
        identity = of(self._tree(path), base_path)
        return None if identity is None else (self._token, identity)


def _is_costlier(rows: ViewAxis, columns: ViewAxis) -> bool:
    """Return whether the other orientation of a sparse matrix costs less to show."""
    if rows.entries is None:
        return False
    if columns.entries is None:
        return True
    shares = [each.size / max(each.length, 1) for each in (rows.entries, columns.entries)]
    return (shares[0], rows.name) < (shares[1], columns.name)


ViewData: TypeAlias = Mapping[Any, str | None] | Sequence[tuple[Any, str | None]]
"""By its name in the view, a string or a tuple: what each scalar, vector and matrix is."""


def view(
    daf: DafReader,
    axes: ViewAxes | None = None,
    data: ViewData | None = None,
    *,
    name: str | None = None,
) -> DafReader:
    """Return a part of a data set as a data set that can be read; nothing is copied.

    Numbers of a range of entries are views of the mapped file; those of other entries are gathered
    when they are asked for.

    Parameters
    ----------
    daf
        An open data set; it stays yours, and the view cannot be read once it is closed.
    axes
        By the name in the view, what an axis is: ``"="``, that of the same name; None, hidden; a
        name, that axis of the base; positions, names, a mask or a slice, those entries of the axis
        of the same name, in that order; or a pair of a name and such entries.  ``"*"`` stands for
        all axes.  What a mapping does not name is as in the base.
    data
        By the name in the view, what a property is: ``"="``, None, or its name in the base.  A key
        is the name of a scalar, ``(axis, name)`` or ``(rows_axis, columns_axis, name)``, with the
        axes of the view; ``"*"`` stands for any.  What a mapping does not name is as in the base.
        Parts of an AnnData that are no properties are shown under their names, such as
        ``uns.tree`` or ``("obs", "obsm.cube")``, with the chosen entries, or hidden.
    name
        Its name; by default that of the data set and ``.view``.

    Returns
    -------
    DafReader
        It shows what is written to the base later, but for the entries that were chosen: if these
        are reordered or replaced, reading it is a ``LabelsError``.

    Raises
    ------
    NotFoundError
        The base has no such axis, entry or property.
    DuplicateEntriesError, LengthError, InvalidInputError
        An entry is chosen twice; a mask has another length than its axis; or a key or value makes
        no sense.

    Notes
    -----
    Instead of a mapping, ``axes`` and ``data`` may be lists of pairs as in the reference: these say
    all that is shown, and the last pair that matches counts.

    A categorical whose axis is hidden keeps its categories in an AnnData, without colours.

    A sparse matrix of some entries is shown in the orientation that stores them as columns, if
    there is one; else all its row numbers are read once.

    Examples
    --------
    >>> import daf_storage
    >>> daf = daf_storage.MemoryDaf()
    >>> daf.add_axis("cell", ["A", "B", "C"])
    >>> daf.set_vector("cell", "age", [30, 60, 90])
    >>> part = view(daf, {"cell": ["C", "A"]}, {("cell", "years"): "age", ("cell", "age"): None})
    >>> part.get_np_vector("cell", "years").tolist(), part.vectors_set("cell")
    ([90, 30], {'years'})
    """
    check_reader(daf, "view()")
    return ViewReader(daf, axes, data, name=unique_name(name or f"{daf.name}.view"))


class ViewReader(DafReader):
    """A part of a data set; `view` returns it.

    Parameters
    ----------
    is_owner
        Whether the data set is closed with it.
    """

    how_to_write = "a view is never written; write to the data set of which it shows a part"

    def __init__(
        self,
        daf: DafReader,
        axes: ViewAxes | None,
        data: ViewData | None,
        *,
        name: str,
        is_owner: bool = False,
    ) -> None:
        data = {} if data is None else data
        rules = data_rules(data)
        shown = view_axes(daf, {} if axes is None else axes)
        tree = ViewTree(daf.tree, shown, rules)
        super().__init__(tree, name=name, on_close=closing([daf], is_owner), members=[daf])
        self.base = daf
        """The data set of which a part is shown."""
        self._shown = shown
        self._data = data
        self._check_rules(rules)

    def _check_rules(self, rules: DataRules) -> None:
        """Raise if a rule names an axis that is not shown, or a property that the base lacks.

        Of a mapping also if the property was to be hidden: by a typo it would be shown.
        """
        daf, shown = self.base, self._shown
        required: list[tuple[Callable[..., bool], Callable[..., Any]]] = [
            (daf.has_scalar, daf.get_scalar),
            (daf.has_vector, daf.open_vector),
            (daf.has_matrix, daf.open_orientations),
        ]
        for key, value in rules.rules:
            *of_axes, name = key
            for axis in of_axes:
                if axis not in (layout.ANY, *shown):
                    raise errors.axis_not_found(self.location, axis, shown)
            if layout.ANY in key or (value is None and not isinstance(self._data, Mapping)):
                continue
            wanted = name if value in ("=", None) else value
            base = [shown[axis].base for axis in of_axes]
            part = "/".join([kept.GROUP, kept.LEVELS[len(base)], *base, wanted])
            if value != wanted and daf.tree.kind(part) is not None:  # what is no property
                continue
            is_there, require = required[len(base)]
            if not is_there(*base, wanted):
                require(*base, wanted)

    def require_origin(self) -> Origin:
        """Return how it can be opened again: its base, with the same entries."""
        self._check_open()
        origin = self.base.require_origin()
        axes = [
            (
                axis.name,
                axis.base if axis.entries is None else (axis.base, self._entries(axis.name)),
            )
            for axis in self._shown.values()
        ]
        return Origin(partial(_view_again, origin, axes, self._data), origin.path, self.name)


def stored_members(daf: DafReader) -> Iterator[DafReader]:
    """Yield the data sets that a chain or a view consists of; one that is stored is its own."""
    for member in daf.members:
        yield from stored_members(member)
    if not daf.members:
        yield daf


def _view_again(origin: Origin, axes: ViewAxes, data: ViewData, path: str) -> DafReader:  # noqa: ARG001 - that of the base
    daf = origin.open()
    return ViewReader(daf, axes, data, name=f"{daf.name}.view", is_owner=True)
