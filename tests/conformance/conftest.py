"""The data of the table, for its tests."""

from __future__ import annotations

import os

import pytest

from tests.conformance.forms import Forms


@pytest.fixture(scope="session")
def forms(tmp_path_factory: pytest.TempPathFactory) -> Forms:
    """Return the data in each form, written when one of the processes of pytest-xdist asks."""
    own = tmp_path_factory.getbasetemp()
    return Forms((own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "conformance")
