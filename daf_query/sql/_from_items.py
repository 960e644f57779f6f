"""The tables that each SELECT of a query reads from, and its wildcards, by the tokens.  Pure.

The engine tells neither before it plans; a wildcard has to be settled before that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Final

from daf_query.sql._names import identifier
from daf_query.sql._tokens import Token

_ENDS_FROM: Final = (
    *("SELECT", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "FETCH"),
    *("UNION", "EXCEPT", "INTERSECT", "MINUS", "WINDOW", "QUALIFY", "RETURNING"),
)
_ENDS_SELECT: Final = ("SELECT", "UNION", "INTERSECT", "MINUS")
_NO_ALIAS: Final = (
    *("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "OUTER", "CROSS", "NATURAL", "SEMI", "ANTI"),
    *("ON", "USING", "TABLESAMPLE", "PIVOT", "UNPIVOT", "FOR", "WITH", "SET"),
    *_ENDS_FROM,
)
_MAX_DEPTH: Final = 64


@dataclass(frozen=True, slots=True)
class FromItem:
    """One table, subquery or function of a FROM."""

    parts: tuple[str, ...]
    """The parts of the name of a table, without quotes; none of a subquery or a function."""
    qualifier: str
    """What its columns are qualified by, as SQL writes it; empty if there is nothing."""
    name: str
    """Its alias, or the last part of its name, without quotes; empty if there is neither."""
    is_table: bool
    """Whether it is named, and not one that WITH defines."""
    exposes: bool = False
    """Whether columns that the query names within it may be among its own."""
    has_column_names: bool = False
    """Whether its columns were given other names."""
    is_hidden: bool = False
    """Whether a wildcard leaves it out: it is the other side of a semi-join or an anti-join."""


def items_called(items: Sequence[FromItem], qualifier: Sequence[str]) -> list[FromItem]:
    """Return what a qualifier can mean, such as ``cell`` or ``mine.cell``: all, if it is empty."""
    if not qualifier:
        return list(items)
    named = [item for item in items if item.name == qualifier[-1]]
    if len(qualifier) == 1:
        return named
    exact = [item for item in named if item.parts[-2:] == tuple(qualifier[-2:])]
    return exact or [item for item in named if len(item.parts) == 1]


@dataclass(frozen=True, slots=True)
class Star:
    """One wildcard of a list of columns."""

    start: int
    """Where it begins in the query, with its qualifier."""
    stop: int
    """Where its ``*`` ends."""
    qualifier: tuple[str, ...]
    """The parts of its qualifier, without quotes."""
    excluded: frozenset[str] = frozenset()
    """The columns that EXCLUDE or EXCEPT names."""
    list_start: int | None = None
    """Where the list of those begins, after its bracket; None without one."""
    single: tuple[int, int] | None = None
    """Where the only one is, if it has no bracket."""
    is_changed: bool = False
    """Whether REPLACE, EXCLUDE or the like follows."""


@dataclass(frozen=True, slots=True)
class Select:
    """One SELECT."""

    items: tuple[FromItem, ...]
    stars: tuple[Star, ...]
    is_natural: bool
    """Whether a NATURAL JOIN is among its joins."""
    is_merged: bool
    """Whether a NATURAL JOIN or USING merges columns of two tables."""


@dataclass(slots=True)
class _Joins:
    """What a FROM says, as far as it was read."""

    items: list[FromItem] = field(default_factory=list)
    is_natural: bool = False
    is_merged: bool = False


def is_exposing(tokens: Sequence[Token], query: str, exposing: AbstractSet[int]) -> bool:
    """Return whether a query has one of the columns that it names there among its own."""
    if _depth_of(tokens) > _MAX_DEPTH:
        return True
    return _Parser(tokens, query, exposing, frozenset()).query(0, len(tokens), {})


def selects_of(
    tokens: Sequence[Token],
    query: str,
    exposing: AbstractSet[int] = frozenset(),
    views: frozenset[str] = frozenset(),
) -> list[Select]:
    """Return all SELECTs of a query, also those of its subqueries.

    Parameters
    ----------
    exposing
        Where the query names columns that a subquery may hand on, by their first tokens.
    views
        Names of tables that may expose such columns as well.

    Examples
    --------
    >>> from daf_query.sql._tokens import tokens_of
    >>> query = "SELECT c.* FROM cell AS c JOIN (SELECT * FROM donor) d USING (donor)"
    >>> [[item.qualifier for item in s.items] for s in selects_of(list(tokens_of(query)), query)]
    [['donor'], ['c', 'd']]
    """
    if _depth_of(tokens) > _MAX_DEPTH:  # the engine refuses it
        return []
    parser = _Parser(tokens, query, exposing, views)
    parser.query(0, len(tokens), {})
    return parser.selects


class _Parser:
    """Reads the tokens of a query, bracket by bracket."""

    def __init__(
        self, tokens: Sequence[Token], query: str, exposing: AbstractSet[int], views: frozenset[str]
    ) -> None:
        self._tokens = tokens
        self._query = query
        self._exposing = exposing
        self._views = views
        self._closing = _closing_brackets(tokens)
        self._exposes: dict[int, bool] = {}
        self.selects: list[Select] = []

    def query(self, first: int, last: int, defined: dict[str, bool]) -> bool:
        """Read what is between two tokens; return whether it may expose named columns.

        Parameters
        ----------
        defined
            What WITH defines around it, and whether that may expose named columns.
        """
        if first >= last:
            return False
        exposes = False
        place, from_place = first, None
        while place < last:
            token = self._tokens[place]
            if token.is_word("WITH"):
                place, defined = self._definitions(place + 1, last, defined)
                continue
            if token.is_word("SELECT"):
                place, is_exposing = self._select(place, last, from_place, defined)
                exposes |= is_exposing
                from_place = None
                continue
            if token.is_word("FROM"):
                from_place = place
            if token.is_operator("("):
                exposes |= self.query(place + 1, self._close(place), defined)
                place = self._close(place)
            place += 1
        self._exposes[first] = exposes
        return exposes

    def _close(self, place: int) -> int:
        return self._closing.get(place, len(self._tokens))

    def _top_level(self, first: int, last: int) -> Iterator[int]:
        """Yield the places outside of brackets; those of brackets that open are among them."""
        place = first
        while place < last:
            yield place
            is_open = self._tokens[place].is_operator("(", "[")
            place = self._close(place) + 1 if is_open else place + 1

    def _definitions(
        self, place: int, last: int, defined: dict[str, bool]
    ) -> tuple[int, dict[str, bool]]:
        """Read what WITH defines; return where the query begins, and what is defined there."""
        is_recursive = place < last and self._tokens[place].is_word("RECURSIVE")
        place += is_recursive
        while place < last and self._tokens[place].kind in ("word", "quoted"):
            name, after = self._written(place), place + 1
            if after < last and self._tokens[after].is_operator("("):
                after = self._close(after) + 1
            if after >= last or not self._tokens[after].is_word("AS"):
                return place, defined
            after += 1
            while after < last and self._tokens[after].is_word("NOT", "MATERIALIZED"):
                after += 1
            if after >= last or not self._tokens[after].is_operator("("):
                return after, defined
            inner = {**defined, name: True} if is_recursive else defined
            exposes = self.query(after + 1, self._close(after), inner)
            defined = {**defined, name: exposes}
            place = self._close(after) + 1
            if place >= last or not self._tokens[place].is_operator(","):
                return place, defined
            place += 1
        return place, defined

    def _select(
        self, first: int, last: int, from_before: int | None, defined: dict[str, bool]
    ) -> tuple[int, bool]:
        """Read one SELECT; return where it ends, and whether a subquery of its FROM exposes."""
        end = next((p for p in self._top_level(first + 1, last) if self._ends_select(p)), last)
        for place in self._top_level(first, end):
            if self._tokens[place].is_operator("("):
                self.query(place + 1, self._close(place), defined)
        from_place = next((p for p in self._top_level(first + 1, end) if self._is_from(p)), None)
        list_end = end if from_place is None else from_place
        joins = _Joins()
        if from_place is not None:
            self._from(from_place + 1, end, defined, joins)
        elif from_before is not None:
            self._from(from_before + 1, first, defined, joins)
        stars = tuple(self._stars(first, list_end))
        exposes = self._selects_named(first + 1, list_end)
        exposes |= bool(stars) and any(item.exposes for item in joins.items)
        self.selects.append(Select(tuple(joins.items), stars, joins.is_natural, joins.is_merged))
        return end, exposes

    def _selects_named(self, first: int, last: int) -> bool:
        """Return whether a list of columns has one of the named columns under its own name."""
        for place in self._top_level(first, last):
            if self._tokens[place].start in self._exposing:
                after = place + 1
                if after < last and self._tokens[after].is_operator("["):
                    after = self._close(after) + 1
                if after >= last or self._tokens[after].is_operator(","):
                    return True
        return False

    def _ends_select(self, place: int) -> bool:
        token, before = self._tokens[place], self._tokens[place - 1]
        is_set = token.is_word("EXCEPT") and not before.is_operator("*")
        return token.is_word(*_ENDS_SELECT) or is_set or token.is_operator(";")

    def _is_from(self, place: int) -> bool:
        is_distinct = self._tokens[place - 1].is_word("DISTINCT")
        before = self._tokens[place - 2] if place > 1 else None
        is_comparison = is_distinct and before is not None and before.is_word("IS", "NOT")
        return self._tokens[place].is_word("FROM") and not is_comparison

    def _from(self, place: int, last: int, defined: dict[str, bool], joins: _Joins) -> None:
        """Read the tables of a FROM up to the next clause."""
        is_expected = True
        is_hidden = False
        while place < last:
            token = self._tokens[place]
            if token.is_word(*_ENDS_FROM) and not is_expected:
                return
            if is_expected and token.is_word("LATERAL", "ONLY"):
                place += 1
            elif is_expected:
                place = self._item(place, last, defined, joins, is_hidden=is_hidden)
                is_expected = is_hidden = False
            else:
                if token.is_operator(",") or token.is_word("JOIN"):
                    is_expected = True
                elif token.is_word("SEMI", "ANTI"):
                    is_hidden = not self._tokens[place - 1].is_word("RIGHT")
                    if not is_hidden:
                        joins.items = [replace(item, is_hidden=True) for item in joins.items]
                joins.is_natural |= token.is_word("NATURAL")
                joins.is_merged |= token.is_word("NATURAL", "USING")
                place = self._close(place) + 1 if token.is_operator("(", "[") else place + 1

    def _item(
        self, place: int, last: int, defined: dict[str, bool], joins: _Joins, *, is_hidden: bool
    ) -> int:
        """Read one table, subquery, function or bracket of joins; return where it ends."""
        first = place
        parts: list[str] = []
        written = ""
        exposes = is_derived = False
        if self._tokens[place].is_operator("("):
            place = self._close(place) + 1
            if self._is_joins(first):
                self._from(first + 1, place - 1, defined, joins)
                return place
            is_derived = True
            exposes = self._exposes.get(first + 1, False)
        elif self._tokens[place].kind not in ("word", "quoted"):
            return place + 1
        else:
            parts, place = self._name(place, last)
            written = self._query[self._tokens[first].start : self._tokens[place - 1].stop]
            if place < last and self._tokens[place].is_operator("("):  # a function
                place, parts, written, is_derived = self._close(place) + 1, [], "", True
        if len(parts) == 1 and parts[0] in defined:
            is_derived, exposes = True, defined[parts[0]]
        exposes = exposes or bool(parts and parts[-1] in self._views)
        alias, place = self._alias(place, last)
        name = identifier(alias) if alias else "".join(parts[-1:])
        has_names = bool(alias) and place < last and self._tokens[place].is_operator("(")
        joins.items.append(
            FromItem(
                tuple(parts),
                alias or written,
                name,
                not is_derived,
                exposes,
                has_names,
                is_hidden,
            )
        )
        return self._close(place) + 1 if has_names else place

    def _is_joins(self, place: int) -> bool:
        """Return whether a bracket holds joined tables, not a query."""
        first, last = place + 1, self._close(place)
        if first >= last or self._tokens[first].is_word("SELECT", "WITH", "VALUES", "FROM"):
            return False
        top = [self._tokens[p] for p in self._top_level(first, last)]
        if any(token.is_word("JOIN") or token.is_operator(",") for token in top):
            return True
        return self._is_joins(first) if top[0].is_operator("(") else True

    def _name(self, place: int, last: int) -> tuple[list[str], int]:
        """Read a name with its parts; return them, and where it ends."""
        parts = [self._written(place)]
        place += 1
        while (
            place + 1 < last
            and self._tokens[place].is_operator(".")
            and self._tokens[place + 1].kind in ("word", "quoted")
        ):
            parts.append(self._written(place + 1))
            place += 2
        return parts, place

    def _alias(self, place: int, last: int) -> tuple[str, int]:
        """Read the alias of a table; return it as it is written, and where it ends."""
        place += place < last and self._tokens[place].is_word("AS")
        if place >= last:
            return "", place
        token = self._tokens[place]
        if token.kind not in ("word", "quoted") or token.is_word(*_NO_ALIAS):
            return "", place
        return self._query[token.start : token.stop], place + 1

    def _written(self, place: int) -> str:
        token = self._tokens[place]
        return identifier(self._query[token.start : token.stop])

    def _stars(self, first: int, last: int) -> Iterator[Star]:
        """Yield the wildcards of a list of columns."""
        for place in self._top_level(first + 1, last):
            token, before = self._tokens[place], self._tokens[place - 1]
            if not token.is_operator("*"):
                continue
            if before.is_operator("."):
                start = place - 2
                while start - 2 > first and self._tokens[start - 1].is_operator("."):
                    start -= 2
                qualifier = tuple(self._written(part) for part in range(start, place, 2))
                yield self._with_changes(
                    Star(self._tokens[start].start, token.stop, qualifier), place, last
                )
            elif (
                before.is_word("SELECT", "DISTINCT", "ALL")
                or before.is_operator(",")
                or self._is_on(place - 1)
            ):
                yield self._with_changes(Star(token.start, token.stop, ()), place, last)

    def _is_on(self, place: int) -> bool:
        """Return whether a bracket closes that of DISTINCT ON."""
        opening = next((o for o, c in self._closing.items() if c == place), None)
        return (
            opening is not None
            and opening > 1
            and (
                self._tokens[opening - 1].is_word("ON")
                and self._tokens[opening - 2].is_word("DISTINCT")
            )
        )

    def _with_changes(self, star: Star, place: int, last: int) -> Star:
        """Return a wildcard with what follows it: EXCLUDE, EXCEPT, REPLACE."""
        after = place + 1
        if after >= last or self._tokens[after].is_operator(",", ";"):
            return star
        star = replace(star, is_changed=True)
        if not self._tokens[after].is_word("EXCLUDE", "EXCEPT") or after + 1 >= last:
            return star
        token = self._tokens[after + 1]
        if not token.is_operator("("):
            name = frozenset([self._written(after + 1)])
            return replace(star, excluded=name, single=(token.start, token.stop))
        inside = range(after + 2, self._close(after + 1))
        names = frozenset(
            self._written(p) for p in inside if self._tokens[p].kind in ("word", "quoted")
        )
        return replace(star, excluded=names, list_start=token.stop)


def _depth_of(tokens: Sequence[Token]) -> int:
    """Return how deep brackets are nested."""
    depths = accumulate(
        token.is_operator("(", "[") - token.is_operator(")", "]") for token in tokens
    )
    return max(depths, default=0)


def _closing_brackets(tokens: Sequence[Token]) -> dict[int, int]:
    """Return where each bracket closes, by where it opens."""
    opened: list[int] = []
    closing = {}
    for place, token in enumerate(tokens):
        if token.is_operator("(", "["):
            opened.append(place)
        elif token.is_operator(")", "]") and opened:
            closing[opened.pop()] = place
    return closing
