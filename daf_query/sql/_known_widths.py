"""Memory of the columns that queries compute with in few bits, by their text.

To find out takes the optimised plan, and often a second one (`daf_query.sql._few_bits`).  It
follows from the text and from the types of the columns, so what was found counts as long as the
tables that the query names have the very columns that they had.  Must not know how queries are
planned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from daf_query.sql._connections import Connections
from daf_query.sql._data_set_schema import DafSchema
from daf_query.sql._planning import PlanningContext, current_context
from daf_query.syntax import Source, UnparsedError, parsed, tokens_of
from daf_query.table import TableColumns
from daf_storage import errors

_T = TypeVar("_T")

_MAX_REMEMBERED: Final = 1 << 8
_PLAIN: Final = PlanningContext()


@dataclass(frozen=True, slots=True)
class KnownWidths:
    """What was found of a query."""

    wide: frozenset[str] | None
    """The columns that have to be wider; None if it is planned as it is written."""
    tables: tuple[tuple[DafSchema, TableColumns], ...]
    """The columns of the tables that it names."""

    def is_current(self) -> bool:
        """Return whether the tables have the same columns still; their metadata are looked at."""
        try:
            return all(
                not schema.has_added(known.table) and schema.columns(known.table) is known
                for schema, known in self.tables
            )
        except (errors.DafError, errors.DafWarning):
            return False


class WidthMemory:
    """What was found of the queries of a session, bounded in number."""

    def __init__(self, connections: Connections, default: str) -> None:
        self._connections = connections
        self._default = default
        self._known: dict[str, KnownWidths] = {}

    def planned(self, query: str, plan: Callable[[frozenset[str] | None], _T]) -> _T | None:
        """Return a query planned as the last time; None if its tables have other columns by now.

        Whether they have is asked afterwards, so that it was so meanwhile.
        """
        known = self._known.get(query) if _is_plain() else None
        if known is None:
            return None
        try:
            planned = plan(known.wide)
        except Exception:
            if known.is_current():
                raise
            return None
        return planned if known.is_current() else None

    def begin(self, query: str) -> tuple[tuple[DafSchema, TableColumns], ...]:
        """Return the columns of the tables that a query names, before it is planned.

        None at all if it may read anything else than axes of single data sets.
        """
        connections, tokens = self._connections, tuple(tokens_of(query))
        is_certain = _is_plain() and not (connections.shared or connections.created())
        if not is_certain or any(token.is_word("TABLE") for token in tokens):
            return ()
        tables = []
        try:
            sources = parsed(query).sources
        except UnparsedError:
            return ()
        for source in sources:
            if source.query is not None:
                continue
            schema = self._schema_of(source)
            if schema is None or not schema.daf.has_axis(source.parts[-1]):
                return ()
            tables.append((schema, schema.columns(source.parts[-1])))
        return tuple(tables)

    def _schema_of(self, source: Source) -> DafSchema | None:
        parts = source.parts
        if not 1 <= len(parts) <= 2:
            return None
        schema = self._connections.schemas.get(self._default if len(parts) == 1 else parts[0])
        return schema if isinstance(schema, DafSchema) else None

    def note(
        self,
        query: str,
        wide: frozenset[str] | None,
        tables: tuple[tuple[DafSchema, TableColumns], ...],
    ) -> None:
        """Remember what was found of a query, unless entries of matrices are among its columns."""
        rewritings = (current_context().rewritings or {}).values()
        if not tables or any(each.columns for each in rewritings):
            return
        if len(self._known) >= _MAX_REMEMBERED:
            self._known.clear()
        self._known[query] = KnownWidths(wide, tables)


def _is_plain() -> bool:
    """Return whether tables are planned as they are."""
    return replace(current_context(), rewritings=None) == _PLAIN
