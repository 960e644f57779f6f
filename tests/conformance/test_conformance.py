"""The table of queries holds on every path."""

from __future__ import annotations

import pytest

from tests.conformance.cases import PATHS, subjects
from tests.conformance.forms import Forms
from tests.conformance.outcomes import disagreements, outcomes


@pytest.fixture(scope="session")
def forms(tmp_path_factory: pytest.TempPathFactory) -> Forms:
    """Return the data in each form, written when they are asked for."""
    return Forms(tmp_path_factory.mktemp("conformance"))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("subject", subjects())
def test_rows_are_those_of_the_oracles(forms: Forms, path: str, subject: str) -> None:
    """And what is known to be wrong still is, or its mark has to go."""
    found = outcomes(forms, path, subject, in_turn=True)
    unexpected = [one for one in found if not one.is_as_marked]
    assert not unexpected, "\n\n".join(["", *map(str, unexpected)])


@pytest.mark.parametrize("subject", subjects())
def test_oracles_agree_or_a_reason_is_given(subject: str) -> None:
    """Of two engines that differ, a case says which is right, and why."""
    found = list(disagreements("directory", subject))
    assert not found, "\n\n".join(["", *found])
