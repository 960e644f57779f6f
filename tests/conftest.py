"""Fixtures that many tests share."""

from __future__ import annotations

import gc
import signal
from pathlib import Path

import pytest
from hypothesis import settings

from daf_query import DafSession, connect
from daf_storage import DafReader, MemoryDaf, Packing, ZarrDaf, import_h5ad
from daf_storage.base import StorageType
from tests.support import PBMC, fill, filled

# Speed is measured in benchmarks/ and never asserted in a test.
settings.register_profile("untimed", deadline=None, max_examples=16)
settings.register_profile("thorough", deadline=None, max_examples=500)
settings.load_profile("untimed")

# A shell that runs the tests in its background has Ctrl-C ignored, also by what they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup() -> None:
    """Enable the garbage collector, which libraries that tests compute with leave disabled."""
    gc.enable()


@pytest.fixture
def tiny_path(tmp_path: Path) -> Path:
    """Return the path of a small data set with one of everything."""
    path = tmp_path / "tiny.daf.zarr"
    filled(path)
    return path


@pytest.fixture
def tiny(tiny_path: Path) -> DafReader:
    """Return a reader of a small data set with one of everything."""
    return ZarrDaf(tiny_path)


@pytest.fixture
def tiny_session() -> DafSession:
    """Return a session over a small data set in memory."""
    return connect(fill(MemoryDaf(name="tiny")))


@pytest.fixture
def session(daf: DafReader) -> DafSession:
    """Return a session over the data set ``daf`` of a module."""
    return connect(daf)


@pytest.fixture(scope="session")
def pbmc_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of the real PBMC data set, imported once."""
    path = tmp_path_factory.mktemp("pbmc") / "pbmc.daf.zarr"
    import_h5ad(PBMC, path, obs_is="cell", var_is="gene")
    return path


@pytest.fixture
def tiny_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pack arrays of any size, in chunks of two elements."""

    def chunks(_: Packing, shape: tuple[int, ...], kind: StorageType) -> tuple[int, ...] | None:
        if not shape or 0 in shape or (kind.is_string and len(shape) > 1):
            return None
        return (*(1,) * (len(shape) - 1), min(2, shape[-1]))

    monkeypatch.setattr(Packing, "chunks", chunks)
