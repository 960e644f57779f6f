"""Tests of names that a directory does not have: remembered, and never longer than that is so."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from daf_query.index import StoredIndexes, build_index
from daf_storage import DafWriter, ZarrDaf, open_daf
from daf_storage.spi import DecodedCache
from daf_storage.stores import DirectoryStore
from daf_storage.stores._absent_names import AbsentNames

SETTLED_SECONDS = 0.12


def test_a_name_that_comes_is_there(tmp_path: Path) -> None:
    """Whatever is remembered; nothing is of a directory that was changed a moment ago."""
    absent = AbsentNames(str(tmp_path))
    absent.note("x")
    assert not absent.is_absent("x")
    time.sleep(SETTLED_SECONDS)
    absent.note("x")
    assert absent.is_absent("x")
    assert not absent.is_absent("y")
    (tmp_path / "x").mkdir()
    assert not absent.is_absent("x")
    time.sleep(SETTLED_SECONDS)
    absent.note("x")
    assert not absent.is_absent("x")


def test_a_directory_that_is_gone_has_no_known_names(tmp_path: Path) -> None:
    """Nor has another one that takes its place."""
    root = tmp_path / "root"
    absent = AbsentNames(str(root))
    absent.note("x")
    root.mkdir()
    time.sleep(SETTLED_SECONDS)
    absent.note("x")
    shutil.rmtree(root)
    assert not absent.is_absent("x")
    (root / "x").mkdir(parents=True)
    assert not absent.is_absent("x")


def test_names_are_bounded_in_number(tmp_path: Path) -> None:
    """Whatever keys are asked for."""
    time.sleep(SETTLED_SECONDS)
    absent = AbsentNames(str(tmp_path))
    for number in range(1_000):
        absent.note(f"x{number}")
    assert 0 < sum(absent.is_absent(f"x{number}") for number in range(1_000)) <= 64


def test_absent_keys_cost_a_look_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No directory is opened nor listed for them; of names that are there, as before."""
    (tmp_path / "there").mkdir()
    time.sleep(SETTLED_SECONDS)
    store = DirectoryStore(tmp_path)
    assert store.property_snapshot("indexes/cell/age") is None
    opened: list[Any] = []
    system_open = os.open

    def noted(path: Any, *args: Any, **options: Any) -> int:
        opened.append(path)
        return system_open(path, *args, **options)

    monkeypatch.setattr(os, "open", noted)
    for key in ("indexes", "indexes/cell", "indexes/cell/age"):
        assert store.property_snapshot(key) is None
        assert store.snapshot(key) is None
    assert not opened
    assert store.snapshot("there") is not None
    assert store.snapshot("there/not") is None
    (tmp_path / "indexes" / "cell").mkdir(parents=True)
    assert store.snapshot("indexes/cell") is not None


def test_an_index_that_somebody_builds_is_found(tmp_path: Path) -> None:
    """By a session that has asked for it in vain, also if another process builds it."""
    path = tmp_path / "x.daf.zarr"
    with ZarrDaf(path, "w") as daf:
        assert isinstance(daf, DafWriter)
        daf.add_axis("cell", [f"c{n}" for n in range(50)])
        daf.set_vector("cell", "age", list(range(50)))
    time.sleep(SETTLED_SECONDS)
    reader = open_daf(path)
    indexes, cache = StoredIndexes(reader, "cell"), DecodedCache()
    assert [indexes.numbers("age", cache) for _ in range(2)] == [None, None]
    with ZarrDaf(path, "r+") as daf:
        build_index(daf, "cell", "age")
    assert indexes.numbers("age", cache) is not None
