"""Tests of Zarr tables of which one array is broken: it takes itself only, and never hangs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr

from daf_query import UnreadableVectorWarning, connect, zarr_table
from daf_storage import errors
from daf_storage.trees import ZarrVersion
from tests.query.table.zarr_groups import TEXT, archived, objects
from tests.support import edited_json
from tests.test_untrusted_files import BOMBS, in_time, put_pipe

N = 20


def made(path: Path, version: ZarrVersion = 3) -> Path:
    """Store a table of four columns in chunks of five rows."""
    meta = zarr.open_group(path, mode="w", zarr_format=version).create_group("meta")
    meta.create_array("good", data=np.arange(N), chunks=(5,))
    meta.create_array("bad", data=np.arange(N), chunks=(5,))
    text = meta.create_array("text", shape=(N,), dtype=TEXT, chunks=(5,))
    text[:] = objects(f"scene {n}" for n in range(N))
    meta.create_array("other", data=np.arange(N) / 2, chunks=(N,), compressors=None)
    return path


def edit(path: Path, file: str = "zarr.json", **changes: Any) -> None:
    """Change the metadata of an array."""
    with edited_json(path / file) as document:
        document.update(changes)


def regular(rows: int) -> dict[str, Any]:
    """Return a chunk grid."""
    return {"name": "regular", "configuration": {"chunk_shape": [rows]}}


BROKEN: dict[str, Callable[[Path], Any]] = {
    "no JSON": lambda p: (p / "zarr.json").write_text("{"),
    "deep JSON": lambda p: (p / "zarr.json").write_text("[" * 100_000),
    "a list": lambda p: (p / "zarr.json").write_text("[]"),
    "large": lambda p: (p / "zarr.json").write_text(
        (p / "zarr.json").read_text() + " " * (1 << 24)
    ),
    "a pipe": lambda p: put_pipe(p / "zarr.json"),
    "complex": lambda p: edit(p, data_type="complex64", fill_value=[0, 0]),
    "wider complex": lambda p: edit(p, data_type="complex128", fill_value=[0, 0]),
    "complex of v2": lambda p: edit(p, ".zarray", dtype="<c8"),
    "wider complex of v2": lambda p: edit(p, ".zarray", dtype="<c16"),
    "unknown type": lambda p: edit(p, data_type="int1024"),
    "codecs": lambda p: edit(p, codecs=[1.5]),
    "rows": lambda p: edit(p, shape=[2**62], chunk_grid=regular(2**62)),
    "chunks": lambda p: edit(p, chunk_grid=regular(10**12)),
}


@pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")
@pytest.mark.parametrize("form", ["directory", "archive"])
@pytest.mark.parametrize("damage", BROKEN)
def test_one_broken_column(tmp_path: Path, damage: str, form: str) -> None:
    """The table lacks it, with one warning; asked for by name, the reason is an error."""
    path = made(tmp_path / "x.zarr", 2 if damage.endswith("v2") else 3)
    if form == "archive" and damage in ("a pipe", "large"):
        pytest.skip("of directories alone")
    BROKEN[damage](path / "meta/bad")
    path = archived(path) if form == "archive" else path
    message = "lacks the column 'bad': .*meta/bad"
    with pytest.warns(UnreadableVectorWarning, match=message) as warned:
        table = in_time(lambda: zarr_table(path))
    assert len(warned) == 1
    assert set(table.schema.names) == {"good", "text", "other"}
    with pytest.warns(UnreadableVectorWarning, match="'bad'"):
        session = connect(path)
    found = session.sql("SELECT * FROM meta WHERE good > 17").to_pydict()
    assert found == {"good": [18, 19], "other": [9.0, 9.5], "text": ["scene 18", "scene 19"]}
    with pytest.raises(errors.UnsupportedDataError, match="meta/bad"):
        session.sql("SELECT bad FROM meta")
    with pytest.raises(errors.UnsupportedDataError, match="meta/bad"):
        table.to_table(columns=["bad"])


def test_the_most_rows_that_are_believed(tmp_path: Path) -> None:
    """2^40 are; one more is no column."""
    path = made(tmp_path / "x.zarr")
    for name in ("good", "text", "other"):
        shutil.rmtree(path / "meta" / name)
    edit(path / "meta/bad", shape=[1 << 40])
    assert zarr_table(path).table_columns.length == 1 << 40
    edit(path / "meta/bad", shape=[(1 << 40) + 1])
    with pytest.raises(errors.FormatError, match="is said to have 1,099,511,627,777 rows"):
        zarr_table(path)


@pytest.mark.parametrize("form", ["directory", "archive"])
@pytest.mark.parametrize("version", [2, 3])
def test_a_damaged_chunk(tmp_path: Path, version: ZarrVersion, form: str) -> None:
    """It shows when it is decoded; then the table is queried without the column."""
    path = made(tmp_path / "x.zarr", version)
    names = {2: ("bad/1", "text/2"), 3: ("bad/c/1", "text/c/2")}[version]
    for name in names:
        chunk = path / "meta" / name
        chunk.write_bytes(chunk.read_bytes()[:-4])
    session = connect(archived(path) if form == "archive" else path)
    with pytest.warns(UnreadableVectorWarning) as warned:
        found = session.sql("SELECT * FROM meta").to_pydict()
    assert set(found) == {"good", "other"}
    assert {str(one.message).split("'")[3] for one in warned} == {"bad", "text"}
    assert session.sql("SELECT * FROM meta").count() == N
    with pytest.raises(errors.FormatError, match="meta/bad"):
        session.sql("SELECT sum(bad) FROM meta").to_pydict()


@pytest.mark.parametrize("form", ["directory", "archive"])
@pytest.mark.parametrize("codec", ["zstd", "gzip", "blosc", "lz4", "zlib"])
def test_chunks_that_expand(tmp_path: Path, codec: str, form: str) -> None:
    """A chunk of 100 MB where five rows should be is an error, for numbers and for strings."""
    meta = zarr.open_group(tmp_path / "x.zarr", mode="w", zarr_format=2).create_group("meta")
    compressor = numcodecs.get_codec({"id": codec})
    for name, filters in (("n", None), ("d", [numcodecs.Delta(dtype="<i8")])):
        options: Any = {"filters": filters, "compressors": compressor}
        meta.create_array(name, data=np.arange(N), chunks=(5,), **options)
    meta.create_array("other", data=np.arange(N), chunks=(N,))
    bomb = BOMBS[codec](bytes(10**8))
    for name in ("n", "d"):
        (tmp_path / f"x.zarr/meta/{name}/2").write_bytes(bomb)
    path = archived(tmp_path / "x.zarr") if form == "archive" else tmp_path / "x.zarr"
    table = zarr_table(path)
    for name in ("n", "d"):
        with pytest.raises(errors.CorruptDataError, match="cannot be decompressed"):
            table.to_table(columns=[name])
    assert table.readable().to_table().column_names == ["other"]
