"""Embeddings: two columns that are x and y of the entries of an axis.  Reads metadata alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from daf_query.syntax import quoted_name
from daf_storage import DafReader, errors

_MOST_DIMENSIONS: Final = 2000
_FIRST: Final = ("spatial", "umap", "tsne", "draw_graph", "phate", "diffmap", "pca")
"""What people look at first."""
_PAIRS: Final = (("1", "2"), ("0", "1"), ("x", "y"), ("X", "Y"))
_PAIR: Final = re.compile(r"(?P<stem>.*?)[_.\- ]?(?P<side>[12xyXY0])$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Embedding:
    """Two columns that are x and y."""

    name: str
    """The matrix, or what the names of two vectors have in common."""
    x: str
    """The SQL of x."""
    y: str
    """The SQL of y."""
    x_label: str
    y_label: str
    matrix: tuple[str, str] | None = None
    """The other axis and the name of a matrix whose first two columns they are."""

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        names = ("name", "x", "y", "x_label", "y_label")
        return {name: getattr(self, name) for name in names}


def embeddings_of(
    members: Sequence[DafReader], axis: str, vectors: Iterable[str]
) -> list[Embedding]:
    """Return the embeddings of an axis, those that people look at first coming first.

    Parameters
    ----------
    members
        The data sets that have the axis.
    vectors
        The names of its vectors that are numbers.
    """
    named: dict[str, Embedding] = {}
    for embedding in (*_of_matrices(members, axis), *_of_vectors(list(vectors))):
        named.setdefault(embedding.name, embedding)
    return sorted(named.values(), key=lambda each: (_rank(each.name), each.name))


def embedding_of(embeddings: Iterable[Embedding], axis: str, name: str) -> Embedding:
    """Return an embedding by its name.

    Raises
    ------
    NotFoundError
        There is none.
    """
    known = {embedding.name: embedding for embedding in embeddings}
    if name not in known:
        has = errors.known_names(known, none="none")
        raise errors.NotFoundError(
            f"axis {axis!r} has no embedding {name!r}; it has {has}{errors.nearest(name, known)}"
        )
    return known[name]


def _rank(name: str) -> int:
    folded = name.casefold()
    return next((rank for rank, each in enumerate(_FIRST) if each in folded), len(_FIRST))


def _of_matrices(members: Sequence[DafReader], axis: str) -> Iterator[Embedding]:
    """Yield those of matrices whose other axis has their columns alone."""
    for daf in members:
        for other in sorted(daf.axes_set() - {axis}):
            if not _is_of_dimensions(daf, other):
                continue
            for name in sorted(daf.matrices_set(axis, other)):
                if _is_own_axis(name, other) and _is_dense_number(daf, axis, other, name):
                    yield _of_matrix(daf, other, name)


def _is_of_dimensions(daf: DafReader, axis: str) -> bool:
    try:
        return 2 <= daf.axis_length(axis) <= _MOST_DIMENSIONS and not daf.vectors_set(axis)
    except errors.DafError:
        return False


def _is_own_axis(name: str, axis: str) -> bool:
    """Return whether an axis is that of the columns of a matrix, as imports make it.

    >>> _is_own_axis("X_umap", "X_umap"), _is_own_axis("umap", "umap_axis")
    (True, True)
    >>> _is_own_axis("X", "gene")
    False
    """
    stem, folded = name.casefold().removeprefix("x_"), axis.casefold()
    return name == axis or (len(stem) > 1 and stem in folded) or name.startswith("X_")


def _is_dense_number(daf: DafReader, axis: str, other: str, name: str) -> bool:
    try:
        infos = [stored.info for stored in daf.open_orientations(axis, other, name)]
    except errors.DafError:
        return False
    return not infos[0].is_sparse and not infos[0].storage_type.is_string


def _of_matrix(daf: DafReader, other: str, name: str) -> Embedding:
    first, second = (str(entry) for entry in daf.axis_entries(other, [0, 1]))
    return Embedding(
        name,
        _entry_sql(other, name, first),
        _entry_sql(other, name, second),
        _label(name, first, 1),
        _label(name, second, 2),
        (other, name),
    )


def _label(name: str, entry: str, number: int) -> str:
    """Return how a dimension is called: by its entry, if that says more than a number."""
    return f"{name} {number}" if entry.isdigit() else entry


def _entry_sql(axis: str, matrix: str, entry: str) -> str:
    written = entry.replace("'", "''")
    return f"{quoted_name(f'{axis}.{matrix}')}['{written}']"


def _of_vectors(vectors: Sequence[str]) -> Iterator[Embedding]:
    """Yield pairs of vectors such as ``umap_1`` and ``umap_2``, or ``x`` and ``y``."""
    sides: dict[str, dict[str, str]] = {}
    for vector in vectors:
        match = _PAIR.match(vector)
        if match:
            sides.setdefault(match["stem"], {})[match["side"]] = vector
    for stem, named in sides.items():
        for first, second in _PAIRS:
            if first in named and second in named:
                x, y = named[first], named[second]
                yield Embedding(stem or f"{x}, {y}", quoted_name(x), quoted_name(y), x, y)
                break
