"""Tests of pauses of the garbage collector: nested, in threads, after errors and forks."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from daf_storage.base import paused_collection
from daf_storage.base._paused_collection import MIN_PAUSED_MEMBERS


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    """Begin and end with a collector that is enabled."""
    gc.enable()
    yield
    gc.enable()


def test_few_data_sets_leave_the_collector_alone() -> None:
    """A pause begins with as many as are worth it."""
    with paused_collection(MIN_PAUSED_MEMBERS - 1):
        assert gc.isenabled()
    with paused_collection(MIN_PAUSED_MEMBERS):
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_outermost_block_restores_what_was_before() -> None:
    """Those within it change nothing."""
    with paused_collection(100):
        with paused_collection(100), paused_collection(1):
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_was_disabled_stays_so() -> None:
    """Whoever disabled it finds it disabled, within and afterwards."""
    gc.disable()
    with paused_collection(100):
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_an_error_ends_the_pause() -> None:
    """Also that of a nested block."""
    with pytest.raises(KeyError), paused_collection(100), paused_collection(100):
        raise KeyError
    assert gc.isenabled()
