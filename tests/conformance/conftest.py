"""The data of the table, for its tests."""

from __future__ import annotations

import pytest

from tests.conformance.forms import Forms


@pytest.fixture(scope="session")
def forms(tmp_path_factory: pytest.TempPathFactory) -> Forms:
    """Return the data in each form, written when they are asked for."""
    return Forms(tmp_path_factory.mktemp("conformance"))
