"""A share of the torture harness, and that the harness notices what it looks for."""

from __future__ import annotations

import pytest

from tests.torture.campaigns import CAMPAIGNS
from tests.torture.tally import Tally, Verdict
from tests.torture.worker import supervise

_SEED = 1
_CASES = 1
"""Of each campaign; `make torture` goes on from there."""
_WORKERS = 6
"""Each runs campaigns of all families in turn, since it takes seconds to start."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", range(_WORKERS))
def test_no_case_of_a_campaign_fails(first: int) -> None:
    """The first cases of each campaign: no crash, hang, wrong answer, foreign exception or loss."""
    campaigns = sorted(CAMPAIGNS)[first::_WORKERS]
    tally = Tally()
    supervise(campaigns, _SEED, tally, seconds=600, most=_CASES)
    assert {name: sum(one.values()) for name, one in tally.counts.items()} == dict.fromkeys(
        campaigns, _CASES
    )
    assert tally.failures == []


@pytest.mark.sampled(0)
def test_the_harness_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each way to fail is counted, and the worker goes on with the next case."""
    verdicts = {
        "prank crash": Verdict.CRASH,
        "prank hang": Verdict.HANG,
        "prank hog": Verdict.FOREIGN,
        "prank wrong": Verdict.WRONG,
        "prank lose": Verdict.LOSS,
        "prank refuse": Verdict.LOSS,
        "prank fine": Verdict.FINE,
    }
    monkeypatch.setenv("DAF_TORTURE_CASE_SECONDS", "3")
    tally = Tally()
    supervise(list(verdicts), _SEED, tally, seconds=600, most=1)
    assert {name: dict(tally.counts[name]) for name in verdicts} == {
        name: {verdict: 1} for name, verdict in verdicts.items()
    }
    assert {(one.campaign, one.case) for one in tally.failures} == {
        (name, 0) for name in verdicts if name != "prank fine"
    }
    assert all(name in tally.table() for name in verdicts)
