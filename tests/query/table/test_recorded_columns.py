"""Tests of dates, nullable booleans and nullable integers of an AnnData in SQL."""

from __future__ import annotations

import ast
import json
import pickle
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from daf_query import DafSession, connect
from daf_query.index import build_index
from daf_storage import AnnDataWarning, DafWriter, copy_all, from_anndata, open_daf
from tests.support import create, data_set

NAMES = ["A", "B", "C", "D"]
OBS = pd.DataFrame(
    {
        "flag": pd.array([True, None, False, True], dtype="boolean"),
        "n": pd.array([3, None, -1, 5], dtype="Int16"),
        "big": pd.array([2**60 + 1, None, 7, 8], dtype="Int64"),
        "day": np.array(["2020-01-02", "NaT", "2021-03-04T05:06:07.5", "1999-12-31"], "M8[ns]"),
        "whole": pd.to_datetime(["2020-01-02", "2020-01-03", "2020-01-04", "2020-01-05"]),
        "zoned": pd.DatetimeIndex(
            np.array(["2020-07-02T12", "NaT", "2020-01-04", "2020-01-05"], "M8[ns]")
        ).tz_localize("Europe/Berlin"),
        "objects": pd.Series([True, None, False, True], dtype=object).to_numpy(),
        "kept": ["x", "", "y", "z"],
    },
    index=NAMES,
)


@pytest.fixture
def daf() -> DafWriter:
    """Return the data set that an import makes of the columns."""
    return from_anndata(anndata.AnnData(obs=OBS))


def test_types(session: DafSession) -> None:
    """What the import knew is the type of the column; where none is missing, it is not nullable."""
    schema = session.sql("SELECT * FROM obs").to_arrow_table().schema
    assert {name: str(schema.field(name).type) for name in OBS.columns} == {
        "flag": "bool",
        "n": "int16",
        "big": "int64",
        "day": "timestamp[ns]",
        "whole": "timestamp[ns]",
        "zoned": "timestamp[ns, tz=Europe/Berlin]",
        "objects": "bool",
        "kept": "string",
    }
    assert not session.table("obs").schema.field("whole").nullable


def test_values_are_those_of_pandas(session: DafSession) -> None:
    """Each column is what pandas had, in Arrow and in pandas."""
    result = session.sql("SELECT * FROM obs ORDER BY index")
    table, frame = result.to_arrow_table(), result.to_pandas().set_index("name")
    for name, values in OBS.items():
        assert table[name].to_pylist() == pa.array(values, from_pandas=True).to_pylist(), name
        if name not in ("objects", "kept"):
            is_wider = name in ("n", "big")
            pd.testing.assert_series_equal(
                frame[name], values, check_dtype=not is_wider, check_names=False
            )


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("n IN (3, 5, 99999)", ["A", "D"]),
        ("n > 2.5", ["A", "D"]),
        ("big = 1152921504606846977", ["A"]),
        ("zoned > '2020-07-02T09:00:00Z'", ["A"]),
        ("name IN ('A', 'C') AND NOT flag", ["C"]),
        ("n = 5 OR day IS NULL", ["B", "D"]),
    ],
)
def test_filters(session: DafSession, condition: str, expected: list[str]) -> None:
    """The same rows as the table in memory yields; the table of queries has simpler ones."""
    query = f"SELECT name FROM {{}} WHERE {condition} ORDER BY name"
    assert session.sql(query.format("obs")).to_pydict()["name"] == expected
    session.register(session.sql("SELECT * FROM obs").to_arrow_table(), "plain")
    assert session.sql(query.format("plain")).to_pydict()["name"] == expected


def test_a_replaced_vector_is_read_as_it_is_stored(daf: DafWriter) -> None:
    """What does not hold what was recorded is no error of a query, and no NULL."""
    session = connect(daf)
    daf.set_vector("obs", "flag", ["yes", "no", "", "true"], **REPLACE)
    daf.set_vector("obs", "n", [2.5, 1.0, np.nan, 3.0], **REPLACE)
    daf.set_vector("obs", "whole", ["Monday", "Tuesday", "2020-01-01", ""], **REPLACE)
    query = "SELECT flag, n, whole FROM obs ORDER BY name"
    assert session.sql(query).to_pydict() == {
        "flag": ["yes", "no", "", "true"],
        "n": [2.5, 1.0, None, 3.0],
        "whole": ["Monday", "Tuesday", "2020-01-01", ""],
    }
    query = "SELECT name FROM obs WHERE n > 2.4 ORDER BY name"
    for each in (session, connect(daf)):  # the first that it reads of the vector is the filter
        assert each.sql(query).to_pydict() == {"name": ["A", "D"]}
    daf.set_vector("obs", "flag", ["true", "false", "true", "true"], **REPLACE)
    query = "SELECT flag FROM obs ORDER BY name"
    assert session.sql(query).to_pydict() == {"flag": [True, False, True, True]}
    for others in (["1", "0", "1", "1"], ["TRUE", "false", "True", "true"]):  # as casts read them
        daf.set_vector("obs", "flag", others, **REPLACE)
        assert session.sql(query).to_pydict() == {"flag": others}


def test_a_vector_of_another_type_has_that_type(daf: DafWriter) -> None:
    """What was recorded of strings says nothing of numbers."""
    daf.set_vector("obs", "flag", [1, 2, 3, 4], **REPLACE)
    daf.set_vector("obs", "day", [1.5, 2, 3, 4], **REPLACE)
    found = connect(daf).sql("SELECT flag, day FROM obs LIMIT 1").to_pydict()
    assert found == {"flag": [1], "day": [1.5]}


@pytest.mark.parametrize(
    "notes",
    [
        "not json",
        "[]",
        '{"axes": []}',
        '{"axes": {"obs": []}}',
        '{"axes": {"obs": {"columns": 5}}}',
        '{"mudata": 5}',
        '{"mudata": {"columns": {"obs": 5}}}',
        '{"axes": {"obs": {"columns": [5, {"vector": 3}, {"vector": "flag"}]}}}',
        '{"axes": {"obs": {"columns": [{"vector": "flag", "kind": "nullable", "dtype": 7}]}}}',
        '{"axes": {"obs": {"columns": [{"vector": "flag", "kind": "date", "dtype": "datetime64[x]"}]}}}',
    ],
)
def test_notes_that_make_no_sense_are_ignored(daf: DafWriter, notes: str) -> None:
    """The column is what is stored, and a warning names what has another form."""
    daf.set_scalar("anndata_notes", notes, **REPLACE)
    query = "SELECT flag FROM obs ORDER BY name LIMIT 2"
    is_form = "[x]" in notes  # a unit that numpy does not have
    with nullcontext() if is_form else pytest.warns(AnnDataWarning, match="ignored: anndata_notes"):
        assert connect(daf).sql(query).to_pydict() == {"flag": ["true", None]}


@pytest.mark.parametrize("zone", ["Nowhere/Land", "-0500", "posixrules", "UTC+1", "Z"])
def test_an_unknown_zone_is_utc(daf: DafWriter, zone: str) -> None:
    """A time zone that Arrow does not know, or Python not, is no error, nor is one when shown."""
    notes = json.loads(str(daf.get_scalar("anndata_notes")))
    rules = {rule["vector"]: rule for rule in notes["axes"]["obs"]["columns"]}
    rules["zoned"]["dtype"] = f"datetime64[ns, {zone}]"
    daf.set_scalar("anndata_notes", json.dumps(notes), **REPLACE)
    table = connect(daf).sql("SELECT zoned FROM obs ORDER BY name").to_arrow_table()
    if zone != "posixrules":  # Python's database has it, and that of Arrow on some systems
        assert str(table.schema.field("zoned").type) == "timestamp[ns, tz=UTC]"
    assert table.column("zoned").cast(pa.string()).null_count == table.column("zoned").null_count


def test_on_disk_in_several_data_sets_and_pickled(daf: DafWriter, tmp_path: Path) -> None:
    """A copy says the same; so do the rows of a collection, and of another process."""
    copy_all(daf, create(tmp_path / "x.daf.zarr"))
    path = str(tmp_path / "x.daf.zarr")
    one = connect(path).sql("SELECT flag, n, day FROM obs ORDER BY name").to_pydict()
    both = connect([path, daf]).sql("SELECT flag, n, day FROM obs ORDER BY name, dataset")
    assert both.to_pydict() == {name: [v for v in one[name] for _ in (0, 1)] for name in one}
    again = pickle.loads(pickle.dumps(connect(path)))
    assert again.sql("SELECT flag, n, day FROM obs ORDER BY name").to_pydict() == one


def test_slices_and_derived_vectors(daf: DafWriter) -> None:
    """A predicate of ``rows=`` and of ``save_vector`` sees the same types."""
    data_set(daf, gene=["g"], matrices={("obs", "gene", "X2"): [[1], [2], [3], [4]]})
    session = connect(daf)
    part = session.matrix("obs", "gene", "X2", rows="flag AND day > '2000-01-01'")
    assert part.rows.tolist() == ["A"]
    session.save_vector("obs", "late", "coalesce(day > '2020-06-01', false)")
    assert daf.get_np_vector("obs", "late").tolist() == [False, False, True, False]


REPLACE: dict[str, Any] = {"if_exists": "replace"}


@pytest.mark.parametrize("narrow", ["Int8", "UInt16"])
def test_missing_integers_of_another_type_stay_missing(narrow: str) -> None:
    """Nullable integers that an import recorded are NULL where the union has a wider type, too."""
    members = []
    for name, kind in (("first", narrow), ("second", "Int64")):
        obs = pd.DataFrame({"i": [1, None, 3]}, index=list("abc"), dtype=kind)
        members.append(from_anndata(anndata.AnnData(obs=obs), name=name))
    session = connect(members)
    table = session.sql("SELECT dataset, i FROM obs ORDER BY dataset, index").to_arrow_table()
    assert table.schema.field("i").type == pa.int64()
    assert table.column("i").to_pylist() == [1, None, 3] * 2
    for condition, names in (("i IS NULL", ["b"]), ("i < 3", ["a"]), ("NOT i = 1", ["c"])):
        found = session.sql(
            f"SELECT name FROM obs WHERE {condition} AND dataset = '{members[0].name}'"
        )
        assert found.to_pydict()["name"] == names
    query = "SELECT min(i) AS least, count(i) AS n FROM obs"
    assert session.sql(query).to_pylist() == [{"least": 1, "n": 4}]


DAYS = """
import sys
import daf_query
days = daf_query.connect(sys.argv[1])
for query in sys.argv[2:]:
    print([str(*row.values()) for row in days.sql(query).to_pylist()])
"""


def test_days_beside_an_index(tmp_path: Path) -> None:
    """Strings that an index has read are freed in threads of the engine, which ended the process.

    That ends the script, if it does.
    """
    days = np.arange("2020-01-01", "2020-02-20", dtype="M8[D]").astype("M8[ns]")
    days[7] = np.datetime64("NaT")
    names = [f"c{n}" for n in range(50)]
    obs = pd.DataFrame({"flag": np.arange(50) % 2 == 1, "day": days}, names)
    path = tmp_path / "days.daf.zarr"
    daf = from_anndata(anndata.AnnData(obs=obs), open_daf(path, "w"))
    build_index(daf, "obs", "day")
    queries = {
        "SELECT max(day) FROM obs WHERE flag": "2020-02-19 00:00:00",
        "SELECT count(day) FROM obs WHERE flag": "24",
        "SELECT max(day + INTERVAL '1 day') FROM obs WHERE flag": "2020-02-20 00:00:00",
        "SELECT count(*) FROM obs AS a JOIN obs AS b ON a.day = b.day WHERE a.flag": "24",
    }
    script = [sys.executable, "-c", DAYS, str(path), *queries]
    ended = subprocess.run(script, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    found = [ast.literal_eval(line) for line in ended.stdout.splitlines()]
    assert found == [[answer] for answer in queries.values()]
