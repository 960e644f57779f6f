"""A data set as an entity-relationship diagram in the language of Mermaid.

Axes are entities, vectors their attributes; relations and matrices are edges.  Names may have any
characters: what the language could mistake is written as a character reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from daf_storage.base import MatrixInfo
from daf_storage.data._relations import Relation
from daf_storage.data._summary import AxisSummary, DafSummary

_PLAIN: Final = frozenset(" _-.,()+=/|")
"""What means nothing within quotes, besides letters and digits."""

_NO_LETTERS: Final = re.compile(r"[^A-Za-z0-9_-]")
_KEYWORDS: Final = frozenset({"PK", "FK", "UK"})
_DIRECTION: Final = re.compile(r"(direction) ", re.IGNORECASE)


def as_mermaid(summary: DafSummary) -> str:
    """Return the diagram; several lines, to be put into a block of ``mermaid`` in Markdown."""
    ids = {axis.name: f"a{place}" for place, axis in enumerate(summary.axes)}
    references = {(relation.axis, relation.vector) for relation in summary.relations}
    lines = ["erDiagram"]
    for axis in summary.axes:
        lines += _entity(axis, ids[axis.name], references)
    lines += [_reference(relation, ids) for relation in summary.relations]
    lines += [_matrix(matrix.info, ids) for matrix in summary.matrices]
    return "\n".join([lines[0], *(f"    {line}" for line in lines[1:])])


def _entity(axis: AxisSummary, entity: str, references: set[tuple[str, str]]) -> Iterator[str]:
    title = f"{entity}[{_quoted(f'{axis.name} ({axis.length:,})')}]"
    if not axis.vectors:
        yield title
        return
    yield f"{title} {{"
    for vector in axis.vectors:
        word = _word(vector.name)
        parts = [vector.storage_type.value, word]
        if (axis.name, vector.name) in references:
            parts.append("FK")
        if word != vector.name:
            parts.append(_quoted(vector.name))
        yield f"    {' '.join(parts)}"
    yield "}"


def _reference(relation: Relation, ids: Mapping[str, str]) -> str:
    """Return the edge of a relation: many rows refer to one entry, or to none."""
    label = _quoted(relation.vector)
    return f"{ids[relation.axis]} }}o--o| {ids[relation.to_axis]} : {label}"


def _matrix(matrix: MatrixInfo, ids: Mapping[str, str]) -> str:
    kind = "sparse" if matrix.is_sparse else "dense"
    label = _quoted(f"{matrix.name} ({kind} {matrix.storage_type.value})")
    return f"{ids[matrix.rows_axis]} }}o..o{{ {ids[matrix.columns_axis]} : {label}"


def _word(name: str) -> str:
    """Return a name as the language takes it without quotes.

    >>> _word("n_genes"), _word("type.manual"), _word("2 "), _word("pk")
    ('n_genes', 'type_manual', '_2_', '_pk')
    """
    word = _NO_LETTERS.sub("_", name)
    is_taken = word.upper() in _KEYWORDS or not (word[0].isalpha() or word[0] == "_")
    return f"_{word}" if is_taken else word


def _quoted(text: str) -> str:
    """Return text in quotes.

    >>> _quoted('"a" é')
    '"#34;a#34; é"'
    """
    safe = "".join(
        character if character.isalnum() or character in _PLAIN else f"#{ord(character)};"
        for character in text
    )
    safe = _DIRECTION.sub(r"\1#32;", safe)  # "direction TB" would turn the picture
    return f'"{safe}"'
