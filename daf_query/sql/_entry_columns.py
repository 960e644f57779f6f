"""Entries of matrices as a list names them, for engines that are given their columns beforehand."""

from __future__ import annotations

from daf_query.sql._axis_schema import AxisSchema
from daf_query.sql._entry_references import references_in
from daf_query.sql._gene_columns import Tables, rewritten, unknown_entry_hint
from daf_query.sql._group_items import split_items
from daf_query.sql._names import identifier, quoted_name
from daf_query.sql._tokens import tokens_of
from daf_query.table import MatrixEntry
from daf_storage import errors


def entry_columns(schema: AxisSchema, axis: str, written: str) -> dict[str, MatrixEntry]:
    """Return the columns that a list such as ``X['CD8A'], X['CD3E'] AS cd3e`` means.

    Raises
    ------
    QueryError
        It is no such list, or the axis has no such matrix.
    EntryNotFoundError
        No axis has the entry.
    """
    columns: dict[str, MatrixEntry] = {}
    for item in split_items(written):
        name, entry = _column(schema, axis, item.strip())
        if name in columns:
            raise errors.QueryError(
                f"two of {written!r} would be called {name!r}; rename one with AS"
            )
        columns[name] = entry
    return columns


def _column(schema: AxisSchema, axis: str, item: str) -> tuple[str, MatrixEntry]:
    tokens = tuple(tokens_of(item))
    references = list(references_in(item, tokens))
    if len(references) != 1:
        raise _malformed(item)
    (reference,) = references
    # Not an injection: it is parsed here, and never executed.
    rewriting = rewritten(
        f"SELECT {item[: reference.stop]} FROM {quoted_name(axis)}",  # noqa: S608 - of the query itself
        Tables({schema.name: schema}, schema.name),
    )
    entries = rewriting.columns.get((schema.name, axis), {})
    if len(entries) != 1:
        hint = unknown_entry_hint(reference.name, [(schema, axis)], item)
        raise errors.MatrixNotFoundError(
            f"{schema.location}: {item!r} names no entry of a matrix over axis {axis!r}{hint}"
        )
    ((name, entry),) = entries.items()
    rest = [token for token in tokens if token.start >= reference.stop]
    if rest and rest[0].is_word("AS"):
        del rest[0]
    if not rest:
        return name, entry
    if len(rest) > 1 or rest[0].kind not in ("word", "quoted"):
        raise _malformed(item)
    return identifier(item[rest[0].start : rest[0].stop]), entry


def _malformed(item: str) -> errors.QueryError:
    return errors.QueryError(
        f"{item!r} is no entry of a matrix; write X['CD8A'], or X['CD8A'] AS cd8a, with commas "
        "between several"
    )
