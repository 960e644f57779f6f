"""Tests of vectors whose values are entries of another axis: what is recorded, what names say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daf_storage import (
    ConventionWarning,
    DafWriter,
    Packing,
    Relation,
    ZarrDaf,
    convert,
    export_h5ad,
    import_h5ad,
    open_daf,
)
from daf_storage.data import values_without_entry
from tests.support import PBMC, create, data_set, served

FORMATS: dict[str, dict[str, Any]] = {
    "x.daf.zarr": {},
    "x3.daf.zarr": {"zarr_format": 3},
    "xp.daf.zarr": {"packed": Packing()},
    "x.daf.zarr.zip": {},
    "x.h5df": {},
}

OF_PBMC = [
    Relation("cell", "bulk_labels", "bulk_labels", "import"),
    Relation("cell", "louvain", "louvain", "import"),
]


def fill_relations(daf: DafWriter) -> None:
    """Add cells with two recorded relations, one of them with missing values, and one by name."""
    data_set(daf, type=["B", "T"], cell={"name": ["a", "b", "c"], "type": ["B", "T", "T"]})
    daf.set_vector("cell", "guess", ["T", "", "B"], entries_of="type")
    daf.set_vector("cell", "both", ["", "", "B"], entries_of="type", empty_is_missing=True)
    daf.set_vector("cell", "text", ["x", "y", "z"])
    daf.set_vector("cell", "type.rank", [1, 2, 3])  # numbers are no entries


EXPECTED = [
    Relation("cell", "both", "type", "import"),
    Relation("cell", "guess", "type", "import"),
    Relation("cell", "type", "type", "name"),
]


def test_names_that_refer_to_an_axis() -> None:
    """The axis of the whole name, or of the part before its first dot, as the reference has it."""
    wanted = {"a.b": "a.b", "a.b.c": "a", "cell": "cell", "cell.parent": "cell"}
    wanted |= dict.fromkeys(["type", "type.manual", "type.manual.old"], "type")
    others = ["types", "my.type", ".type", "type ", "Type"]
    daf = data_set(type=1, a=1, cell={"name": 1} | dict.fromkeys([*wanted, *others], "x"))
    daf.add_axis("a.b", ["x"])
    expected = [Relation("cell", name, wanted[name], "name") for name in sorted(wanted)]
    assert daf.relations() == expected


def test_what_was_recorded_goes_before_the_name() -> None:
    """Unless that axis is gone."""
    daf = data_set(cell=1, type=1, type_var=["x"])
    daf.set_vector("cell", "type", ["x"], entries_of="type_var")
    assert daf.relations() == [Relation("cell", "type", "type_var", "import")]
    daf.delete_axis("type_var")
    assert daf.relations() == [Relation("cell", "type", "type", "name")]
    daf.delete_axis("type")
    assert daf.relations() == []


STRINGS = st.sampled_from(["", "A", "B", "é", "x", "A "])


@given(
    batches=st.lists(st.lists(st.one_of(st.none(), STRINGS), max_size=5), max_size=4),
    entries=st.sets(STRINGS),
    coded=st.booleans(),
)
def test_values_without_entry_are_those_that_python_finds(
    batches: list[list[str | None]], entries: set[str], *, coded: bool
) -> None:
    """The first, and how many; empty ones and nulls are missing."""
    arrays = [pa.array(batch, pa.string()) for batch in batches]
    if coded:
        arrays = [array.fill_null("").dictionary_encode() for array in arrays]
    unknown = [v for batch in batches for v in batch if v and v not in entries]
    found = values_without_entry(arrays, pa.array(sorted(entries), pa.string()))
    assert found == ((unknown[0], len(unknown)) if unknown else None)


@pytest.mark.parametrize("name", FORMATS)
def test_relations_are_recorded_in_every_format(tmp_path: Path, name: str) -> None:
    """And served, and handed on by copies, conversions and reorderings, and removed with the vector."""
    path = tmp_path / name
    daf = open_daf(path, "w", **FORMATS[name])
    fill_relations(daf)
    assert daf.relations() == EXPECTED
    assert daf.vector_info("cell", "both").empty_is_missing
    daf.close()
    with served(path) as server, open_daf(server.url) as reader:
        assert reader.relations() == EXPECTED
    convert(path, tmp_path / "copy.h5df", progress="never")
    convert(tmp_path / "copy.h5df", tmp_path / "copy.daf.zarr", progress="never")
    for copy in ("copy.h5df", "copy.daf.zarr"):
        with open_daf(tmp_path / copy) as copied:
            assert copied.relations() == EXPECTED
    daf = open_daf(tmp_path / "copy.daf.zarr", "r+")
    daf.reorder_axis("cell", ["c", "a", "b"])
    assert daf.relations() == EXPECTED
    daf.set_vector("cell", "guess", ["T", "B", "B"], if_exists="replace")
    assert daf.relations() == [EXPECTED[0], EXPECTED[2]]


def test_the_import_records_them_and_they_survive_an_export(tmp_path: Path) -> None:
    """PBMC: into Daf, back to h5ad, and into Daf again."""
    import_h5ad(PBMC, tmp_path / "x.daf.zarr", obs_is="cell", var_is="gene", progress="never")
    with open_daf(tmp_path / "x.daf.zarr") as daf:
        assert daf.relations() == OF_PBMC
        export_h5ad(daf, tmp_path / "x.h5ad", progress="never")
    import_h5ad(tmp_path / "x.h5ad", tmp_path / "y.h5df", progress="never")
    with open_daf(tmp_path / "y.h5df") as daf:
        assert daf.relations() == OF_PBMC


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of such a data set."""
    with create(tmp_path / "x.daf.zarr") as daf:
        fill_relations(daf)
    return tmp_path / "x.daf.zarr"


@pytest.mark.parametrize("value", [7, "", "a/b", ["type"]])
def test_a_record_that_makes_no_sense_is_ignored(path: Path, value: Any) -> None:
    """With a warning; the values are read."""
    attributes = path / "vectors/cell/guess/.zattrs"
    assert json.loads(attributes.read_text()) == {"daf_entries_of": "type"}
    attributes.write_text(json.dumps({"daf_entries_of": value}))
    reader = ZarrDaf(path)
    with pytest.warns(ConventionWarning, match="not the name of an axis"):
        found = reader.relations()
    assert found == [EXPECTED[0], EXPECTED[2]]
    with pytest.warns(ConventionWarning, match="write the property again"):
        values = reader.get_np_vector("cell", "guess")
    assert values.tolist() == ["T", "", "B"]


def test_broken_vectors_hide_no_others(path: Path) -> None:
    """A vector whose metadata cannot be read has no relation."""
    (path / "vectors/cell/guess/.zarray").write_text("{")
    with open_daf(path) as reader:
        assert reader.relations() == [EXPECTED[0], EXPECTED[2]]
