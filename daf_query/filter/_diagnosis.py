"""The diagnosis of a predicate: how many rows each of its conjuncts leaves, and why none."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from daf_storage.spi import visible_name


@dataclass(frozen=True, slots=True)
class Conjunct:
    """A condition of a predicate that is joined with the others by AND."""

    sql: str
    """As SQL."""
    rows: int | None
    """How many rows satisfy it; None if it fails."""
    remaining: int | None
    """How many satisfy it and all conjuncts before it; None if one of them fails."""
    hints: tuple[str, ...] = ()
    """What is wrong with it, as far as that is known, and what to write."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """How many rows each conjunct of a predicate leaves, and why; see `DafSession.diagnose`."""

    axis: str
    """The table."""
    predicate: str
    """As it was written."""
    total: int
    """Number of rows of the table."""
    conjuncts: tuple[Conjunct, ...]
    """In the order in which they are written."""

    @property
    def matched(self) -> int | None:
        """How many rows satisfy all conjuncts; None if one of them fails."""
        return self.conjuncts[-1].remaining if self.conjuncts else self.total

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python, for machines."""
        return {**asdict(self), "matched": self.matched}

    def __repr__(self) -> str:
        return "\n".join(map(visible_name, self._lines()))

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{_counted(each.rows)}</td><td>{_counted(each.remaining)}</td>"
            f"<td><code>{html.escape(each.sql)}</code>"
            + "".join(f"<br>{html.escape(hint)}" for hint in each.hints)
            + "</td></tr>"
            for each in self.conjuncts
        )
        head = "<tr><th>alone</th><th>so far</th><th>condition</th></tr>"
        return f"<p>{html.escape(self._headline())}</p><table>{head}{rows}</table>"

    def _headline(self) -> str:
        if self.matched is None:
            return f"the predicate fails on {self.axis}, which has {self.total:,} rows"
        return f"{self.matched:,} of {self.total:,} rows of {self.axis} match"

    def _lines(self) -> Iterator[str]:
        yield self._headline()
        counts = [(_counted(each.rows), _counted(each.remaining)) for each in self.conjuncts]
        widths = [
            max(map(len, column)) for column in zip(("alone", "so far"), *counts, strict=True)
        ]
        yield f"  {'alone':>{widths[0]}}  {'so far':>{widths[1]}}  condition"
        for each, (alone, remaining) in zip(self.conjuncts, counts, strict=True):
            yield f"  {alone:>{widths[0]}}  {remaining:>{widths[1]}}  {' '.join(each.sql.split())}"
            indent = " " * (sum(widths) + 6)
            yield from (f"{indent}  {hint}" for hint in each.hints)


def _counted(count: int | None) -> str:
    return "fails" if count is None else f"{count:,}"
