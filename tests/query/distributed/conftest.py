"""Tasks of these tests run one after the other, and what they opened is let go."""

from __future__ import annotations

from collections.abc import Iterator

import dask
import pytest

from daf_query.distributed import SOURCES


@pytest.fixture(autouse=True)
def _synchronous() -> Iterator[None]:
    with dask.config.set(scheduler="synchronous"):
        yield
    SOURCES.clear()
