"""Tests of the documents of plain files: what they may say, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from daf_storage import errors
from daf_storage.base import StorageType
from daf_storage.files_daf._descriptors import (
    PackedForm,
    PartForm,
    parse_property,
    parse_scalar,
    property_document,
)

PART: dict[str, Any] = {"format": "dense", "eltype": "Float64"}
PACKED: dict[str, Any] = {
    "packed_format": "indexed+zipped",
    "chunk_shape": [3, 2],
    "compression": "gzip",
    "compression_level": 4,
}


def document(**said: Any) -> bytes:
    """Return a document of a dense property that says something more."""
    return json.dumps({**PART, **said}).encode()


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"n_elements": -1}, "its n_elements is -1"),
        ({"n_elements": 1.0}, r"its n_elements is 1\.0"),
        ({"n_elements": True}, "its n_elements is True"),
        ({"n_elements": 1 << 70}, "its n_elements is"),
        ({"shape": 3}, "its shape is 3"),
        ({"shape": [3, -1]}, r"its shape is \[3, -1\]"),
        ({"shape": [3, "x"]}, r"its shape is \[3, 'x'\]"),
        ({"shape": [1] * 33}, r"its shape is \["),
        ({**PACKED, "chunk_shape": None}, "its chunk_shape is None"),
        ({**PACKED, "chunk_shape": []}, r"its chunk_shape is \[\]"),
        ({**PACKED, "chunk_shape": [3, 0]}, r"its chunk_shape is \[3, 0\]"),
        ({**PACKED, "chunk_shape": [3, 2, 1]}, r"its chunk_shape is \[3, 2, 1\]"),
        (
            {**PACKED, "packed_format": "tar"},
            "it is packed as 'tar' with 'gzip', which is not read",
        ),
        ({**PACKED, "compression": None}, "it is packed as .* with None, which is not read"),
        ({"eltype": 7}, "there is no element type 7; known are .*Float64"),
        ({"format": "sparse", "eltype": "Bool"}, "there is no element type None"),
    ],
)
def test_what_a_document_cannot_say(said: dict[str, Any], message: str) -> None:
    """The error names the document, and what it says."""
    with pytest.raises(errors.FormatError, match=f"^age: {message}"):
        parse_property(document(**said), what="age")


def test_parts_that_are_no_documents() -> None:
    """Each part of a sparse property is described by an object of its own."""
    sparse = {"format": "sparse", "nzind": PART, "nzval": ["Float64"]}
    with pytest.raises(errors.CorruptDataError, match=r"age: its nzval is \['Float64'\]"):
        parse_property(json.dumps(sparse).encode(), what="age")
    nested = {"format": "sparse", "nzind": {**PART, "n_elements": -2}}
    with pytest.raises(errors.CorruptDataError, match="age: nzind: its n_elements is -2"):
        parse_property(json.dumps(nested).encode(), what="age")


def test_what_a_document_says() -> None:
    """Lengths from 0 on, up to 32 dimensions, chunks in the order of the reference."""
    form = parse_property(document(n_elements=0, shape=[1] * 32, note="x"), what="age")
    assert form.parts[""] == PartForm(StorageType.FLOAT64, 0, (1,) * 32)
    assert form.attributes == {"note": "x"}
    packed = parse_property(document(**PACKED), what="age").parts[""].packed
    assert packed == PackedForm((2, 3), "gzip", 4)
    assert packed.is_indexed
    assert packed.index_at_start
    others = {"packed_format": "zipped", "compression_level": "9", "index_location": "end"}
    other = parse_property(document(**{**PACKED, **others}), what="age").parts[""].packed
    assert other is not None
    assert (other.level, other.is_indexed, other.index_at_start) == (0, False, False)


@pytest.mark.parametrize(
    "said",
    [{}, {"n_elements": 5}, {"shape": [4, 5], "note": [1]}, {**PACKED, "index_location": "start"}],
)
def test_a_document_that_is_written_again_says_the_same(said: dict[str, Any]) -> None:
    """Also what only other programs know."""
    form = parse_property(document(**said), what="age")
    assert json.loads(property_document(form)) == {**PART, **said}


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("Int8", 127, np.int8(127)),
        ("Int8", 127.0, np.int8(127)),
        ("UInt64", 2**64 - 1, np.uint64(2**64 - 1)),
        ("Bool", True, np.bool_(True)),
        ("Bool", 0, np.bool_(False)),
        ("bool", 1, np.bool_(True)),
        ("Float32", 0.1, np.float32(0.1)),
        ("Float32", 1e300, np.float32(np.inf)),
        ("Float64", "-Inf", -np.inf),
        ("Float64", 3, 3.0),
        ("String", "", ""),
    ],
)
def test_scalars(kind: str, value: Any, expected: Any) -> None:
    """Numbers of their type, and what JSON has no number for as words."""
    text = json.dumps({"type": kind, "value": value}).encode()
    found = parse_scalar(text, what="n").value
    assert found == expected
    assert type(found) is type(expected) or isinstance(found, np.floating)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("Int8", 128),
        ("Int8", 1.5),
        ("Int8", True),
        ("Int8", "1"),
        ("Int8", None),
        ("UInt8", -1),
        ("Bool", 2),
        ("Int64", float("nan")),
        ("Int64", float("inf")),
        ("Float64", True),
        ("Float64", "1.5"),
        ("Float64", [1]),
        ("Float64", 10**400),
        ("String", 1),
        ("String", None),
    ],
)
def test_values_that_are_none_of_their_type(kind: str, value: Any) -> None:
    """The error shows the value."""
    text = json.dumps({"type": kind, "value": value}).encode()
    with pytest.raises(errors.CorruptDataError, match=f"^n: its value .* is no {kind}$"):
        parse_scalar(text, what="n")
