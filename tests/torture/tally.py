"""Outcomes of the cases, counted by campaign."""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field


class Verdict(enum.Enum):
    """How a case ended."""

    FINE = "fine"
    CRASH = "crashes"
    """The interpreter died of a signal, or gave up."""
    HANG = "hangs"
    """It took longer than the limit."""
    WRONG = "wrong answers"
    """A value or a row that differs from the slow, obvious way."""
    FOREIGN = "foreign exceptions"
    """An exception that is no `DafError`."""
    LOSS = "losses"
    """Something that had been committed, or was not concerned, cannot be read any more."""


FAILURES = tuple(verdict for verdict in Verdict if verdict is not Verdict.FINE)


class WrongAnswerError(AssertionError):
    """A case found a value that is not what it has to be."""


class LossError(AssertionError):
    """A case could not read something that must have stayed readable."""


class ChildCrashError(RuntimeError):
    """A child of a case died of a signal."""


class ChildHangError(RuntimeError):
    """A child of a case did not end."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A case that did not end well."""

    campaign: str
    case: int
    verdict: Verdict
    detail: str
    """What happened, and where."""

    def __str__(self) -> str:
        return f"{self.campaign}:{self.case}  {self.verdict.value}: {self.detail}"


@dataclass(slots=True)
class Tally:
    """The verdicts of all cases so far."""

    counts: dict[str, Counter[Verdict]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    def add(self, campaign: str, case: int, verdict: Verdict, detail: str = "") -> None:
        """Count one case."""
        self.counts.setdefault(campaign, Counter())[verdict] += 1
        if verdict is not Verdict.FINE:
            self.failures.append(Failure(campaign, case, verdict, detail))

    def table(self) -> str:
        """Return a row for each campaign and one for all."""
        columns = ["cases", *(verdict.value for verdict in FAILURES)]
        counts = dict(sorted(self.counts.items())) | {
            "all": sum(self.counts.values(), start=Counter[Verdict]())
        }
        rows = [
            (name, (each.total(), *(each[verdict] for verdict in FAILURES)))
            for name, each in counts.items()
        ]
        width = max(len(name) for name, _ in rows)
        lines = [" ".join([" " * width, *(f"{column:>18}" for column in columns)])]
        lines += [f"{name:{width}} " + " ".join(f"{n:18,}" for n in row) for name, row in rows]
        return "\n".join(lines)
