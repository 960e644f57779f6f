"""Tests of columns of raw bits as other implementations than zarr-python spell them."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import zarr
from zarr.core.dtype import RawBytes, parse_data_type

from daf_query import UnreadableVectorWarning, append_rows, connect, zarr_table
from daf_query.table import register_raw_bits
from daf_storage import errors
from tests import seams
from tests.query.table.zarr_groups import archived
from tests.support import served

pytestmark = [
    pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning"),
    pytest.mark.filterwarnings("ignore:Consolidated metadata is currently"),
]

VALUES = [b"ab", b"\x00\xff", b"ef", b"\xff\x00", b"ij"]
CODECS: dict[str, Any] = {
    "plain": [{"name": "bytes"}],
    "gzip": [{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 5}}],
}


def document(data_type: Any = "r16", fill_value: Any = (0, 0), **changes: Any) -> dict[str, Any]:
    """Return the metadata of five items in chunks of two, as zarrs (Rust) writes them."""
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [5],
        "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill_value,
        "codecs": CODECS["plain"],
        "attributes": {},
        **changes,
    }


def put(folder: Path, metadata: dict[str, Any], chunks: list[bytes]) -> None:
    """Write an array by hand."""
    (folder / "c").mkdir(parents=True)
    (folder / "zarr.json").write_text(json.dumps(metadata))
    for number, chunk in enumerate(chunks):
        (folder / "c" / str(number)).write_bytes(chunk)


def chunks_of(codec: str = "plain") -> list[bytes]:
    """Return the stored chunks; the last is padded."""
    padded = [*VALUES, b"\x00\x00"]
    plain = [b"".join(padded[start : start + 2]) for start in (0, 2, 4)]
    return plain if codec == "plain" else [gzip.compress(chunk) for chunk in plain]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a table of numbers, to which an array of raw bits can be added."""
    path = tmp_path / "x.zarr"
    meta = zarr.open_group(path, mode="w", zarr_format=3).create_group("meta")
    meta.create_array("n", data=np.arange(5), chunks=(2,))
    return path


@pytest.mark.parametrize("codec", CODECS)
def test_they_are_read(path: Path, codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As bytes, of a directory and an archive; the same whether zarr-python decodes them or we."""
    put(path / "meta/raw", document(codecs=CODECS[codec]), chunks_of(codec))
    for source in (path, archived(path)):
        table = zarr_table(source)
        assert table.schema.field("raw").type == pa.binary_view()
        assert table.to_table().to_pydict() == {"n": list(range(5)), "raw": VALUES}
        with monkeypatch.context() as patch:  # decoded by zarr-python alone
            patch.setattr(seams.ZARR_CHUNK_DECOMPRESSED, lambda *_: None)
            assert zarr_table(source).to_table(columns=["raw"]).to_pydict() == {"raw": VALUES}
        with monkeypatch.context() as patch:  # not decoded by zarr-python at all
            patch.setattr(zarr, "open_array", None)
            assert zarr_table(source).to_table(columns=["raw"]).to_pydict() == {"raw": VALUES}
        found = connect(source).sql("SELECT n FROM meta WHERE raw = X'FF00'").to_pydict()
        assert found == {"n": [3]}


def test_they_are_read_from_a_server(path: Path) -> None:
    """With consolidated metadata, which has the spelling too."""
    pytest.importorskip("obstore")
    register_raw_bits()  # zarr-python, which writes the consolidated metadata, has to know the type
    put(path / "meta/raw", document(), chunks_of())
    folder = path.rename(path.with_name("x.daf.zarr"))  # the server serves data sets, by their name
    zarr.consolidate_metadata(str(folder))
    assert '"r16"' in (folder / "zarr.json").read_text()
    with served(folder) as server:
        table = zarr_table(server.url)
        assert table.to_table().to_pydict() == {"n": [0, 1, 2, 3, 4], "raw": VALUES}
        found = table.to_table(columns=["raw"], filter=pc.field("n") == 3)
        assert found.to_pydict() == {"raw": [VALUES[3]]}


@pytest.mark.parametrize(
    ("changes", "count", "expected"),
    [
        ({"fill_value": [7, 255]}, 1, [*VALUES[:2], *[b"\x07\xff"] * 3]),
        ({"shape": [0]}, 0, []),
    ],
)
def test_missing_chunks(
    path: Path, changes: dict[str, Any], count: int, expected: list[bytes]
) -> None:
    """Where there is no chunk, each item is the fill value; a table without rows has the column."""
    shutil.rmtree(path / "meta/n")
    put(path / "meta/raw", document(**changes), chunks_of()[:count])
    assert zarr_table(path).to_table().to_pydict() == {"raw": expected}


@pytest.mark.parametrize(
    ("data_type", "fill_value", "reason"),
    [
        ("r12", [0, 0], "'r12' are no whole bytes, or too many"),
        ("r0", [], "'r0' are no whole bytes, or too many"),
        ("r8000000000000", [0], "'r8000000000000' are no whole bytes, or too many"),
        ("r16", [0], r"fill value \[0\] is not a list of 2 bytes, as the data type 'r16' needs"),
        ("r16", [0, 256], r"Invalid fill_value: \[0, 256\]"),
        ("r16", "AAA=", "not a list of 2 bytes"),
        ("r16", None, "not a list of 2 bytes"),
        ("rx", [0], "No Zarr data type found that matches 'rx'"),
    ],
)
def test_metadata_that_are_wrong(path: Path, data_type: str, fill_value: Any, reason: str) -> None:
    """Are a problem of that column, with the reason; the others can be used."""
    put(path / "meta/raw", document(data_type, fill_value), chunks_of())
    for source in (path, archived(path)):
        with pytest.warns(UnreadableVectorWarning, match=f"'raw': .*meta/raw.*{reason}") as warned:
            table = zarr_table(source)
        assert len(warned) == 1
        assert table.to_table().to_pydict() == {"n": list(range(5))}
        with pytest.raises(errors.UnsupportedDataError, match=reason):
            table.to_table(columns=["raw"])


def test_a_damaged_chunk(path: Path) -> None:
    """Of another size than its items have is an error that names the array."""
    put(path / "meta/raw", document(), [*chunks_of()[:2], b"\x00\x00\x00"])
    with pytest.raises(errors.CorruptDataError, match=r"meta/raw: .*c/2 is damaged"):
        zarr_table(path).to_table(columns=["raw"])


@pytest.mark.parametrize("spelling", ["r16", "raw_bytes"])
def test_appending_keeps_the_spelling(path: Path, spelling: str) -> None:
    """And items of another size are refused, not cut or padded."""
    kind = {"r16": "r16", "raw_bytes": {"name": "raw_bytes", "configuration": {"length_bytes": 2}}}
    fill_value = {"r16": [1, 0], "raw_bytes": "AQA="}[spelling]
    put(path / "meta/raw", document(kind[spelling], fill_value), chunks_of())
    for column, wrong in (
        ([b"kl", b"mno"], "the item 1 is b'mno'"),
        (pa.array([b"k", b"mn"]), "the item 0 is b'k'"),
        (["kl", "mn"], "the item 0 is 'kl'"),
        (pa.array([b"kl", None]), "the item 1 is None"),
    ):
        with pytest.raises(errors.InvalidInputError, match=f"items of 2 bytes each; {wrong}"):
            append_rows(path, {"n": [5, 6], "raw": column})
    more = np.array([b"kl", b"m\x00"], "V2")
    rows: list[Any] = [more, [b"kl", b"m\x00"], pa.chunked_array([[b"kl"], [b"m\x00"]])]
    for count, column in enumerate(rows, start=1):
        assert append_rows(path, {"n": [5, 6], "raw": column}) == 5 + 2 * count
    found = zarr_table(path).to_table(columns=["raw"]).to_pydict()
    assert found == {"raw": VALUES + [b"kl", b"m\x00"] * 3}
    stored = json.loads((path / "meta/raw/zarr.json").read_text())
    assert (stored["data_type"], stored["fill_value"]) == (kind[spelling], fill_value)
    assert stored["shape"] == [11]


def test_what_zarr_python_writes_stays_as_it_was() -> None:
    """Whoever asks for numpy's raw bytes gets its own spelling, and Zarr v2 has no other."""
    register_raw_bits()
    assert type(parse_data_type("V2", zarr_format=3)) is RawBytes  # type: ignore[arg-type] # numpy's name
    assert type(parse_data_type(np.dtype("V2"), zarr_format=2)) is RawBytes
    with pytest.raises(TypeError, match="r16"):
        parse_data_type("r16", zarr_format=2)  # type: ignore[arg-type] # there is no such one


def test_bytes_in_filters(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Of SQL and of Arrow, also where they are no text and the engine logs all that it does."""
    put(path / "meta/raw", document(), chunks_of())
    table = zarr_table(path)
    with caplog.at_level("DEBUG"):
        for value in VALUES:
            later = [n for n, other in enumerate(VALUES) if other > value]
            for operator, rows in (("=", [VALUES.index(value)]), (">", later)):
                query = f"SELECT n FROM meta WHERE raw {operator} X'{value.hex()}' ORDER BY n"
                assert connect(table).sql(query).to_pydict() == {"n": rows}
            either = "SELECT n FROM meta WHERE raw IN (X'6162', X'FF00') ORDER BY n"
            assert connect(table).sql(either).to_pydict() == {"n": [0, 3]}
    for kind in (pa.binary(), pa.binary_view()):
        after = pc.field("raw") > pa.scalar(b"ef", kind)
        assert table.to_table(columns=["n"], filter=after).to_pydict() == {"n": [3, 4]}
        assert table.count_rows(pc.field("raw").isin(pa.array([b"ij", b"ab"], kind))) == 2
        assert table.count_rows(~(pc.field("raw") == pa.scalar(b"ij", kind))) == 4
