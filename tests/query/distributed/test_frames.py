"""Tests of `to_dask_dataframe`: the rows of a table in partitions, pruned, with the columns needed."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from daf_query import DafSession, connect
from daf_query.scan import ScanOptions
from daf_storage import ZarrDaf, convert, copy_all
from tests.support import data_set, recorded_reads

ROWS = 500


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the same table in several forms."""
    folder = tmp_path_factory.mktemp("frames")
    rng = np.random.default_rng(2)
    daf = data_set(cell={"name": ROWS, "age": np.arange(ROWS).astype("int16")}, gene=["g0", "g1"])
    daf.set_vector("cell", "score", np.where(rng.random(ROWS) < 0.2, np.nan, rng.random(ROWS)))
    daf.set_vector("cell", "donor", pa.array(rng.choice(["d1", "d2", ""], ROWS)))
    daf.set_vector("cell", "is_old", rng.random(ROWS) < 0.5)
    daf.set_matrix("cell", "gene", "X", rng.random((ROWS, 2)))
    copy_all(daf, ZarrDaf(folder / "plain.daf.zarr", "w"))
    convert(folder / "plain.daf.zarr", folder / "zipped.daf.zarr.zip")
    convert(folder / "plain.daf.zarr", folder / "packed.daf.zarr", packed=True)
    several = [folder / "plain.daf.zarr", folder / "packed.daf.zarr"]
    single = {path.name.partition(".")[0]: path for path in folder.iterdir()}
    return single | {"several": several, "memory": daf}


@pytest.fixture(scope="module")
def sessions(paths: dict[str, Any]) -> dict[str, DafSession]:
    """Return a session over each form, with small zones."""
    options = ScanOptions(zone_rows=50)
    return {name: connect(source, scan_options=options) for name, source in paths.items()}


def expected_of(table: Any, filter: Any = None) -> pd.DataFrame:
    """Return the rows by Arrow and pandas, as the data frame has them."""
    frame: pd.DataFrame = table.to_table(filter=filter).to_pandas()
    if "dataset" not in frame:
        frame = frame.set_index("index").rename_axis(None)
    for name in frame:
        if frame[name].dtype == object:
            frame[name] = frame[name].astype(pd.StringDtype("pyarrow"))
    return frame


@pytest.mark.sampled(6)
@pytest.mark.parametrize("form", ["packed", "zipped", "several", "memory"])
@pytest.mark.parametrize(
    "filter_",
    [
        None,
        (pc.field("donor") == "d1") & (pc.field("score") < 0.3),
        pc.field("age") < 0,
    ],
)
def test_rows_are_those_of_the_table(
    sessions: dict[str, DafSession], form: str, filter_: Any
) -> None:
    """In their order, with types that are the same in every partition, by positions."""
    table = sessions[form].table("cell")
    frame = table.to_dask_dataframe(filter=filter_, rows_per_partition=170)
    computed = frame.compute()
    pd.testing.assert_frame_equal(
        computed.reset_index(drop=form == "several"),
        expected_of(table, filter_).reset_index(drop=form == "several"),
    )
    assert (computed.dtypes == frame.dtypes).all()
    assert frame.known_divisions == (form != "several")
    for number in range(frame.npartitions):
        partition = frame.get_partition(number).compute()
        assert (partition.dtypes == frame.dtypes).all()
        if form != "several" and len(partition):
            last = number == frame.npartitions - 1
            assert partition.index[0] >= frame.divisions[number]
            assert partition.index[-1] < frame.divisions[number + 1] + last


def test_partitions_that_cannot_match_are_left_out(paths: dict[str, Any], tmp_path: Path) -> None:
    """By a stored index, when the graph is made; and by positions, since divisions are known."""
    convert(paths["plain"], tmp_path / "x.daf.zarr")
    expression = (pc.field("age") == 120) | (pc.field("age") > 10_000)
    choice: Any = {"rows_per_partition": 100, "filter": pc.field("name") == "c120"}
    with connect(tmp_path / "x.daf.zarr", mode="r+") as db:
        assert db.table("cell").to_dask_dataframe(**choice).npartitions == 5
        db.build_index("cell", ["name"])
    with connect(tmp_path / "x.daf.zarr") as db:
        frame = db.table("cell").to_dask_dataframe(**choice)
        assert frame.divisions == (100, 199)
        assert frame["name"].compute().to_dict() == {120: "c120"}
        assert len(db.table("cell").to_dask_dataframe(filter=expression)) == 1
        none = db.table("cell").to_dask_dataframe(filter=pc.field("name") == "nobody")
        assert none.divisions == (0, 0)
        assert (len(none), none["age"].sum().compute()) == (0, 0)
        assert none.compute().dtypes.equals(frame.compute().dtypes)
        whole = db.table("cell").to_dask_dataframe(rows_per_partition=100)
    assert whole.npartitions == 5
    assert len(pickle.dumps(whole)) < 20_000  # of which no row is part
    assert whole.loc[120:130].npartitions == 1
    assert whole.loc[120:130]["age"].compute().tolist() == list(range(120, 131))


def test_only_needed_columns_are_read(
    paths: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the computation and of the filter, whichever the frame has."""
    with recorded_reads(monkeypatch) as reads:
        table = connect(paths["plain"]).table("cell")
        frame = table.to_dask_dataframe(rows_per_partition=100, filter=pc.field("age") >= 250)
        assert not [key for key in reads.keys if key.endswith("score/0")]
        total = frame["score"].sum().compute()
    values = [key for key in reads.keys if key.startswith("vectors/") and key.endswith("/0")]
    assert {key.split("/")[2] for key in values} == {"score", "age"}
    assert total == pytest.approx(expected_of(table)["score"][250:].sum())


@pytest.mark.parametrize("form", ["packed", "several", "memory"])
def test_the_long_form_of_a_matrix(sessions: dict[str, DafSession], form: str) -> None:
    """A partition has the elements of some rows, or of some columns."""
    table = sessions[form].matrix_table("cell", "gene", "X", rows="age < 300")
    chosen = pc.field("value") > 0.5
    frame = table.to_dask_dataframe(filter=chosen, rows_per_partition=100)
    assert frame.npartitions > 1
    names = table.schema.names
    strings = dict.fromkeys([name for name in names if name != "value"], pd.StringDtype("pyarrow"))
    pd.testing.assert_frame_equal(
        frame.compute().sort_values(names, ignore_index=True),
        table.to_table(filter=chosen)
        .to_pandas()
        .astype(strings)
        .sort_values(names, ignore_index=True),
    )
