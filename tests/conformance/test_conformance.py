"""The table of queries holds on every path."""

from __future__ import annotations

from collections.abc import Iterable

import duckdb
import pytest

from tests.conformance.cases import PATHS, subjects
from tests.conformance.forms import Forms
from tests.conformance.outcomes import Outcome, disagreements, outcomes, predicate_outcomes

SLICED = ("directory", "collection")
"""Paths of slices; a condition is asked on one of them."""


IS_OLD_ORACLE = int(duckdb.__version__.partition(".")[0]) < 2
"""Whether DuckDB cannot parse some of the queries, or answers them otherwise."""


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("subject", subjects())
def test_rows_are_those_of_the_oracles(forms: Forms, path: str, subject: str) -> None:
    """And what is known to be wrong still is, or its mark has to go."""
    if IS_OLD_ORACLE and subject == "order_limit":
        pytest.skip("DuckDB cannot parse one of its queries before version 2")
    _check(outcomes(forms, path, subject, in_turn=True))


@pytest.mark.parametrize("path", SLICED)
@pytest.mark.parametrize("subject", ["where", "strings", "subqueries", "known_wrong"])
def test_conditions_choose_the_rows_of_a_slice(forms: Forms, path: str, subject: str) -> None:
    """A condition of ``rows=`` is that of a query."""
    _check(predicate_outcomes(forms, path, subject, in_turn=SLICED))


@pytest.mark.skipif(IS_OLD_ORACLE, reason="the reasons are those of DuckDB 2")
@pytest.mark.parametrize("subject", subjects())
def test_oracles_agree_or_a_reason_is_given(subject: str) -> None:
    """Of two engines that differ, a case says which is right, and why."""
    found = list(disagreements(subject))
    assert not found, "\n\n".join(["", *found])


def _check(found: Iterable[Outcome]) -> None:
    unexpected = [one for one in found if not one.is_as_marked]
    assert not unexpected, "\n\n".join(["", *map(str, unexpected)])
