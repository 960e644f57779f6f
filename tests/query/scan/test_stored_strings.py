"""Tests of queries on strings that were not decoded; the oracle decodes them."""

from __future__ import annotations

import shutil
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from daf_query import ScanOptions, connect
from daf_query.scan import DictionaryCodes, StringColumn
from daf_storage import MemoryDaf, errors, open_daf
from daf_storage.base import _strings as vlen
from daf_storage.trees import StringSearch
from tests.support import served

CONDITIONS = [
    "{} = 'b'",
    "{} = ''",
    "{} <> 'b'",
    "{} IN ('é', 'bb', 'absent')",
    "{} NOT IN ('b', 'é')",
    "{} IS NULL",
    "{} IS NOT NULL",
    "{} = 'b' OR score > 95",
    "NOT ({} = 'bb') AND score > 50",
    "score > 97 AND {} = 'b'",
    "{} > 'a'",
]
SEARCHED = ScanOptions(min_searched_strings=1, min_partition_rows=32, partition_rows=32)
DECODED = ScanOptions(min_searched_strings=1 << 30)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data set with few and with many distinct strings."""
    path = tmp_path_factory.mktemp("strings") / "x.daf.zarr"
    strings = ["b", "", "bb", "é", "b\0", "long" * 80, "\x01\0\0\0b"]
    picks = np.random.default_rng(1).integers(0, len(strings), 1000)
    with open_daf(path, "w") as daf:
        daf.add_axis("cell", [f"cell_{number}" for number in range(1000)])
        daf.set_vector("cell", "donor", [strings[pick] for pick in picks])
        daf.set_vector("cell", "missing", [strings[pick] for pick in picks], empty_is_missing=True)
        daf.set_vector("cell", "score", np.arange(1000) % 100)
    return path


@pytest.mark.parametrize(
    ("column", "condition"),
    [
        (column, condition)
        for column in ("donor", "missing")
        for condition in CONDITIONS
        if column == "missing" or "NULL" not in condition
    ],
)
def test_first_queries_are_those_on_decoded_strings(
    path: Path, column: str, condition: str
) -> None:
    """Counts and rows, of the first query and of the second."""
    where = condition.format(column)
    for what in ("count(*) AS n", f"name, {column}"):
        query = f"SELECT {what} FROM cell WHERE {where}"
        with (
            connect(path, scan_options=DECODED) as slow,
            connect(path, scan_options=SEARCHED) as quick,
        ):
            expected = slow.sql(query).to_arrow_table().to_pylist()
            for _ in range(2):
                rows = quick.sql(query).to_arrow_table().to_pylist()
                assert sorted(map(repr, rows)) == sorted(map(repr, expected))


def test_only_the_second_query_makes_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first compares strings where they are, and reads those of the rows that match."""
    made = []
    of = DictionaryCodes.of

    def counting(*arguments: Any, **options: Any) -> DictionaryCodes:
        made.append(arguments)
        return of(*arguments, **options)

    monkeypatch.setattr(DictionaryCodes, "of", counting)
    monkeypatch.setattr(StringColumn, "_decoded", None)
    daf = MemoryDaf()
    daf.add_axis("cell", [f"cell_{number}" for number in range(1000)])
    daf.set_vector("cell", "donor", ["b", "é", "", "bb"] * 250)
    daf.set_vector("cell", "score", np.arange(1000) % 101)
    with connect(daf, scan_options=SEARCHED) as session:
        query = "SELECT donor FROM cell WHERE donor = 'é' AND score > 95"
        first = session.sql(query).to_arrow_table()
        assert not made
        assert session.sql(query).to_arrow_table().num_rows == first.num_rows > 0
        assert len(made) == 1
        session.sql("SELECT count(*) FROM cell WHERE donor = 'b'").to_arrow_table()
        assert len(made) == 1


def test_a_damaged_string_is_the_same_error(path: Path, tmp_path: Path) -> None:
    """In what a query says of it, the vector is named, whether it was searched or decoded."""
    broken = tmp_path / "x.daf.zarr"
    shutil.copytree(path, broken)
    chunk = broken / "vectors/cell/donor/0"
    data = bytearray(chunk.read_bytes())
    data[-1] = 0xFF
    chunk.write_bytes(data)
    said = set()
    for options in (SEARCHED, DECODED):
        with (
            connect(broken, scan_options=options) as session,
            pytest.raises(
                errors.CorruptDataError, match=r"donor.*truncated or not UTF-8"
            ) as caught,
        ):
            session.sql("SELECT count(*) FROM cell WHERE donor = 'b'").to_arrow_table()
        said.add(str(caught.value).split("(")[0])  # Arrow counts from where it began
    assert len(said) == 1


def test_a_name_among_many_is_found_without_decoding_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look-up takes memory for some blocks of the names, not for all of them."""
    path = tmp_path / "x.daf.zarr"
    count = 1 << 19
    with open_daf(path, "w") as daf:
        daf.add_axis("cell", pa.array([f"cell_{number:032}" for number in range(count)]))
    monkeypatch.setattr(vlen, "decode_vlen_utf8", None)
    with connect(path) as session:
        session.sql("SELECT count(*) FROM cell").to_arrow_table()
        pool = pa.default_memory_pool()
        tracemalloc.start()
        before = pool.bytes_allocated()
        for number in (7, 300_000):
            query = f"SELECT name FROM cell WHERE name = 'cell_{number:032}'"
            assert session.sql(query).to_arrow_table().num_rows == 1
        peak = tracemalloc.get_traced_memory()[1] + pool.bytes_allocated() - before
        tracemalloc.stop()
    assert peak < (path / "axes/cell/0").stat().st_size / 3


def test_strings_that_are_not_mapped_are_not_searched(path: Path, tmp_path: Path) -> None:
    """Of a server, and compressed in an archive, they would be fetched or expanded each time."""
    with open_daf(path) as daf:
        assert StringSearch.of(daf.string_array("cell", "name")) is not None
    with served(path) as server, open_daf(server.url) as daf:
        assert StringSearch.of(daf.string_array("cell", "name")) is None
    archive = tmp_path / "x.daf.zarr.zip"
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(archive, "w", compression) as file:
            for each in sorted(path.rglob("*")):
                file.write(each, each.relative_to(path))
        with open_daf(archive) as daf:
            search = StringSearch.of(daf.string_array("cell", "name"))
            assert (search is None) == (compression == zipfile.ZIP_DEFLATED)
