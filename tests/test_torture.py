"""A share of the torture harness, and that the harness notices what it looks for."""

from __future__ import annotations

import pytest

from tests.torture.campaigns import CAMPAIGNS
from tests.torture.tally import Tally, Verdict
from tests.torture.worker import Supervisor

_SEED = 1
_CASES = 12


@pytest.mark.parametrize("campaign", sorted(CAMPAIGNS))
def test_no_case_of_a_campaign_fails(campaign: str) -> None:
    """The first cases of each campaign: no crash, hang, wrong answer, foreign exception or loss."""
    tally = Tally()
    Supervisor(campaign, _SEED, tally).run(seconds=600, most=_CASES)
    assert tally.cases == _CASES
    assert tally.failures == []


@pytest.mark.parametrize(
    ("prank", "verdict"),
    [
        ("prank crash", Verdict.CRASH),
        ("prank hang", Verdict.HANG),
        ("prank hog", Verdict.FOREIGN),
        ("prank wrong", Verdict.WRONG),
        ("prank lose", Verdict.LOSS),
        ("prank refuse", Verdict.LOSS),
        ("prank fine", Verdict.FINE),
    ],
)
def test_the_harness_notices(monkeypatch: pytest.MonkeyPatch, prank: str, verdict: Verdict) -> None:
    """Each way to fail is counted, and the worker goes on with the next case."""
    monkeypatch.setenv("DAF_TORTURE_CASE_SECONDS", "3")
    tally = Tally()
    Supervisor(prank, _SEED, tally).run(seconds=600, most=2)
    assert dict(tally.counts[prank]) == {verdict: 2}
    assert len(tally.failures) == (0 if verdict is Verdict.FINE else 2)
    assert prank in tally.table()
