"""Tests of what blocks of several data sets are called: by what each data set holds."""

from __future__ import annotations

from pathlib import Path

from daf_storage import copy_all, open_daf
from tests.query.collection.cases import RUNS, daf_of, session_with
from tests.support import create


def test_the_names_of_blocks_follow_from_every_data_set(tmp_path: Path) -> None:
    """Dask takes equal names for equal values: another data set among them is another array."""

    def write(called: str, version: int) -> Path:
        path = tmp_path / f"{called} {version}.daf.zarr"
        copy_all(daf_of(called, RUNS[called]), create(path), progress="never")
        return path

    def name(paths: dict[str, Path]) -> str:
        dafs = {called: open_daf(path) for called, path in paths.items()}
        part = session_with(dafs).matrix("cell", "gene", "X", join="outer")
        return str(part.to_dask(rows_per_block=3).name)

    paths = {called: write(called, 1) for called in ("monday", "tuesday")}
    first = name(paths)
    assert name(paths) == first
    others = {name({**paths, called: write(called, 2)}) for called in paths}
    assert len({first, *others}) == 3
