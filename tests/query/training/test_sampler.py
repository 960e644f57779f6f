"""Samplers: entries of an axis with weights and splits, by SQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import daf_query
from daf_query import DafSession, Sampler, connect
from daf_storage import DafWriter, MemoryDaf, errors
from tests.support import data_set, there

SPLIT = {"train": 0.7, "val": 0.2, "test": 0.1}
COUNT = 300


def cells(start: int = 0, stop: int = COUNT) -> pd.DataFrame:
    """Return some cells, always the same for the same numbers."""
    numbers = np.arange(start, stop)
    return pd.DataFrame(
        {
            "name": [f"cell_{n}" for n in numbers],
            "type": np.array(["B", "T", "NK"])[(numbers * numbers) % 7 % 3],
            "donor": [f"d{n % 11}" for n in numbers],
            "score": np.where(numbers % 5 == 0, np.nan, numbers / 8),
            "depth": numbers % 13,
        }
    )


def filled(daf: DafWriter, frame: pd.DataFrame) -> DafWriter:
    """Return a data set that has the cells, and two genes."""
    vectors = {name: frame[name].to_numpy() for name in ("type", "donor", "score", "depth")}
    data_set(daf, cell={"name": frame["name"].tolist(), **vectors}, gene=["G0", "G1"])
    numbers = frame["depth"].to_numpy(np.float32)
    daf.set_matrix("cell", "gene", "X", np.stack([numbers, numbers > 5], axis=1))
    return daf


@pytest.fixture(scope="module")
def db() -> DafSession:
    """Return a session over the cells."""
    return connect({"cells": filled(MemoryDaf(name="cells"), cells())})


def as_pandas(sampler: Sampler) -> pd.DataFrame:
    """Return the rows of a sampler."""
    frame: pd.DataFrame = sampler.to_arrow().to_pandas()
    return frame


def test_entries_weights_and_splits_agree_with_pandas(db: DafSession) -> None:
    """Weights are of the chosen entries alone, and 1 / count(*) is no integer."""
    sampler = db.sampler(
        "cell",
        where="depth > $least",
        weights="1 / count(*) OVER (PARTITION BY type) -- a/b",
        split=SPLIT,
        stratify="type",
        params={"least": 3},
    )
    frame = cells()
    chosen = frame[frame["depth"] > 3]
    assert sampler.indices.tolist() == chosen.index.tolist()
    assert sampler.names.to_pylist() == chosen["name"].tolist()
    assert sampler.weights is not None
    expected = 1 / chosen.groupby("type")["name"].transform("count")
    assert np.allclose(sampler.weights, expected)
    table = pd.crosstab(chosen["type"].to_numpy(), as_pandas(sampler)["split"])
    targets = np.outer(table.sum(axis=1), list(SPLIT.values()))
    assert (np.abs(table[list(SPLIT)].to_numpy() - targets) < 1).all()
    assert sum(sampler.sizes.values()) == len(sampler) == len(chosen)
    assert repr(db.sampler("cell")) == "Sampler('cell', 300 of 300 entries)"


def test_a_split_is_a_part(db: DafSession) -> None:
    """It has the entries of the split, with their weights, and they add up to all."""
    sampler = db.sampler("cell", weights="depth + 1", split=SPLIT, seed=3)
    parts = [sampler[name] for name in SPLIT]
    assert sorted(np.concatenate([part.indices for part in parts])) == list(range(COUNT))
    for name, part in zip(SPLIT, parts, strict=True):
        assert part.sizes == {name: len(part)}
        assert part.weights is not None
        assert np.array_equal(part.weights, part.indices % 13 + 1)
        assert part.splits is not None
        assert part.splits.unique().to_pylist() == [name]


@pytest.mark.parametrize(
    "where",
    [
        "depth IN (1, 2)",
        "SELECT name FROM cell WHERE depth = 1 UNION ALL SELECT name FROM cell WHERE depth < 3 AND depth > 0",
        np.flatnonzero((np.arange(COUNT) % 13 == 1) | (np.arange(COUNT) % 13 == 2))[::-1],
        [f"cell_{n}" for n in range(COUNT) if n % 13 in (1, 2)] * 2,
        "(depth = 1 or depth == 2) ORDER BY score DESC LIMIT 1000",
    ],
    ids=["predicate", "select", "positions", "names", "limit"],
)
def test_all_ways_to_choose_are_the_same(db: DafSession, where: Any) -> None:
    """Each entry counts once, in the order of the axis; weights see these entries alone."""
    sampler = db.sampler("cell", where=where, weights="1 / count(*) OVER ()", split=SPLIT)
    frame = cells()
    assert sampler.indices.tolist() == frame.index[frame["depth"].isin([1, 2])].tolist()
    assert sampler.weights is not None
    assert set(sampler.weights) == {1 / len(sampler)}
    assert sampler.split_codes is not None
    expected = db.sampler("cell", where="depth IN (1, 2)", split=SPLIT)
    assert np.array_equal(sampler.split_codes, np.asarray(expected.split_codes))


def test_no_group_is_in_two_splits(db: DafSession) -> None:
    """Of donors, alone and with types; sizes are near the shares."""
    for groups in ("donor", ["donor", "depth % 2"], "donor, depth % 2"):
        sampler = db.sampler("cell", split={"train": 0.75, "val": 0.25}, groups=groups)
        frame = cells().assign(split=as_pandas(sampler)["split"].astype(str))
        frame["odd"] = frame["depth"] % 2
        keys = ["donor"] if groups == "donor" else ["donor", "odd"]
        assert len(frame[[*keys, "split"]].drop_duplicates()) == len(frame[keys].drop_duplicates())
        assert abs(sampler.sizes["val"] - 0.25 * COUNT) <= COUNT / 11 / 2 + 1
    seeds = {
        tuple(
            db.sampler("cell", split={"a": 0.5, "b": 0.5}, groups="donor", seed=seed)["a"].indices
        )
        for seed in range(5)
    }
    assert len(seeds) > 1


def test_of_several_data_sets_positions_count_through(tmp_path: Path) -> None:
    """And the rows say which data set and which position within it, also of equal names."""
    halves = [
        filled(MemoryDaf(name="training_early"), cells(0, 50)),
        filled(MemoryDaf(name="training_late"), cells(30, 90)),
    ]
    db = connect(halves)
    sampler = db.sampler("cell", where="depth > 3", weights="depth", split=SPLIT)
    both = pd.concat([cells(0, 50), cells(30, 90)], ignore_index=True)
    chosen = both[both["depth"] > 3]
    assert sampler.indices.tolist() == chosen.index.tolist()
    frame = as_pandas(sampler)
    found = frame["dataset"].tolist()
    assert found == ["training_early" if n < 50 else "training_late" for n in chosen.index]
    assert frame["index"].tolist() == [n if n < 50 else n - 50 for n in chosen.index]
    assert frame["weight"].tolist() == chosen["depth"].tolist()
    only = db.sampler("cell", where="dataset = 'training_late'", weights="1 / count(*) OVER ()")
    assert only.indices.tolist() == list(range(50, 110))
    sampler.save(tmp_path / "split.arrow")
    assert db.load_sampler(tmp_path / "split.arrow").to_arrow().equals(sampler.to_arrow())
    kept = db.load_sampler(tmp_path / "split.arrow", if_changed="keep")
    assert kept.to_arrow().equals(sampler.to_arrow())


def test_saved_and_loaded(tmp_path: Path, db: DafSession) -> None:
    """Parquet and Arrow have all of it, and where it comes from; text has the rows."""
    sampler = db.sampler(
        "cell", where="depth > 1", weights="depth / 3", split=SPLIT, stratify="type", seed=2
    )
    for suffix in ("parquet", "arrow"):
        path = tmp_path / f"split.{suffix}"
        sampler.save(path)
        for loaded in (db.load_sampler(path), db.load_sampler(path, if_changed="keep")):
            assert loaded.to_arrow().equals(sampler.to_arrow())
            assert repr(loaded) == repr(sampler)
        record = there(daf_query.provenance(path))
        assert record["sampler"]["where"] == "depth > 1"
        assert list(record["data_sets"]) == ["cells"]
    sampler.save(tmp_path / "split.csv")
    frame = pd.read_csv(tmp_path / "split.csv")
    assert frame["split"].tolist() == as_pandas(sampler)["split"].tolist()
    by_name = db.sampler("cell", where=["cell_5", "cell_7"], weights="1 / count(*) OVER ()")
    by_name.save(tmp_path / "two.parquet")
    assert db.load_sampler(tmp_path / "two.parquet").names.to_pylist() == ["cell_5", "cell_7"]


def test_a_changed_data_set_is_noticed(tmp_path: Path) -> None:
    """Other entries, another order, other values: each is named; ``keep`` finds entries by name."""
    path = tmp_path / "split.parquet"
    requested: dict[str, Any] = {
        "weights": "depth + 1",
        "split": {"train": 0.5, "val": 0.5},
        "stratify": "type",
    }
    frame = cells(0, 40)
    sampler = connect(filled(MemoryDaf(), frame)).sampler("cell", **requested)
    sampler.save(path)
    more, in_reverse, deeper, other_types = cells(0, 41), frame[::-1], frame.copy(), frame.copy()
    deeper["depth"] += deeper.index == 3
    other_types["type"] = other_types["type"].to_numpy()[::-1]
    saved = dict(zip(sampler.names.to_pylist(), as_pandas(sampler)["split"], strict=True))
    for changed, message in (
        (more, "chooses 41 entries and chose 40"),
        (in_reverse, "others, or at other positions"),
        (deeper, "weights= yields other numbers"),
        (other_types, "belong to other splits"),
        (frame.drop(columns="type").assign(type=1.0), "belong to other splits"),
    ):
        db = connect(filled(MemoryDaf(), changed.reset_index(drop=True)))
        with pytest.raises(errors.InvalidInputError, match=f"{message}.*if_changed='keep'"):
            db.load_sampler(path)
        kept = as_pandas(db.load_sampler(path, if_changed="keep"))
        assert dict(zip(kept["name"], kept["split"], strict=True)) == saved
        assert kept["index"].is_monotonic_increasing
    fewer = connect(filled(MemoryDaf(), cells(1, 40)))
    with pytest.raises(errors.EntryNotFoundError, match="split.parquet: .*'cell_0'"):
        fewer.load_sampler(path, if_changed="keep")
