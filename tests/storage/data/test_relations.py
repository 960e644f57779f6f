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
    VectorInfo,
    ZarrDaf,
    convert,
    errors,
    export_h5ad,
    import_h5ad,
    open_daf,
)
from daf_storage.base import StorageType
from daf_storage.data import relation_of, values_without_entry
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


def vector(name: str, kind: StorageType = StorageType.STRING, **more: Any) -> VectorInfo:
    """Return the metadata of a vector of cells."""
    return VectorInfo("cell", name, kind, 3, is_sparse=False, chunk_rows=3, **more)


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


@pytest.mark.parametrize(
    ("name", "to_axis"),
    [
        ("type", "type"),
        ("type.manual", "type"),
        ("type.manual.old", "type"),
        ("a.b", "a.b"),  # an axis of the whole name goes first
        ("a.b.c", "a"),  # the part before the first dot, as the reference has it
        ("cell", "cell"),
        ("cell.parent", "cell"),
        ("types", None),
        ("my.type", None),
        (".type", None),
        ("type ", None),
        ("Type", None),
    ],
)
def test_names_that_refer_to_an_axis(name: str, to_axis: str | None) -> None:
    """The axis of the name, or of the part before its first dot."""
    relation = relation_of({"type", "cell", "a", "a.b"}, vector(name))
    assert relation == (None if to_axis is None else Relation("cell", name, to_axis, "name"))


def test_what_was_recorded_goes_before_the_name() -> None:
    """Unless that axis is gone."""
    recorded = vector("type", entries_of="type_var")
    assert relation_of({"type", "type_var"}, recorded) == Relation(
        "cell", "type", "type_var", "import"
    )
    assert relation_of({"type"}, recorded) == Relation("cell", "type", "type", "name")
    assert relation_of({"cell"}, recorded) is None


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


@pytest.mark.parametrize(
    ("values", "axis", "error", "message"),
    [
        (
            ["B", "X", ""],
            "type",
            errors.UnsupportedInputError,
            "1 values of vector 'v' of axis 'cell' are no entries of the axis 'type', first 'X'",
        ),
        ([1, 2, 3], "type", errors.InvalidInputError, "holds no strings"),
        (["", "", ""], "typo", errors.AxisNotFoundError, "no axis 'typo'"),
    ],
)
def test_what_is_no_relation_is_not_recorded(
    values: list[Any], axis: str, error: type[Exception], message: str
) -> None:
    """Values that are no entries, numbers, an unknown axis: nothing is stored."""
    daf = data_set(name="m")
    fill_relations(daf)
    with pytest.raises(error, match=message):
        daf.set_vector("cell", "v", values, entries_of=axis)
    assert not daf.has_vector("cell", "v")


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
