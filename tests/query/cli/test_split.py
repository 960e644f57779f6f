"""Tests of the command split."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from daf_query import connect
from daf_query.cli import main
from daf_storage import open_daf


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return a data set of cells."""
    created = open_daf(tmp_path / "x.daf.zarr", "w")
    created.add_axis("cell", [f"cell_{n}" for n in range(40)])
    created.set_vector("cell", "age", list(range(40)))
    created.set_vector("cell", "donor", [f"d{n % 8}" for n in range(40)])
    return str(tmp_path / "x.daf.zarr")


def test_a_split_is_written(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As Parquet, which is the sampler of the session, and as CSV."""
    options = ["split", path, "cell", "--where", "age > $least", "--param", "least=7"]
    options += ["--share", "train=0.75", "--share", "val=0.25", "--groups", "donor"]
    options += ["--weights", "age / 2", "--seed", "3"]
    for suffix in ("parquet", "csv"):
        assert main([*options, "-o", f"{path}.{suffix}"]) == 0
        assert capsys.readouterr().out == (
            f"{path}.{suffix}: 32 of 40 entries of cell: train 24, val 8\n"
        )
    with connect(path) as db:
        loaded = db.load_sampler(f"{path}.parquet").to_arrow().to_pandas()
    written = pd.read_csv(f"{path}.csv")
    assert written["split"].tolist() == loaded["split"].tolist()
    assert written["weight"].tolist() == [n / 2 for n in range(8, 40)]
    assert len(written[["split"]].assign(donor=written["index"] % 8).drop_duplicates()) == 8
