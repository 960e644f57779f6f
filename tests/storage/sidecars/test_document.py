"""Tests of what a sidecar says of itself: read as it was written, or refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from daf_storage import errors
from daf_storage.sidecars import SidecarDocument

DOCUMENT = SidecarDocument(
    source="x.h5ad",
    fingerprint="abc",
    digest="def",
    size_bytes=7,
    arrays={"vectors/cell/age": {"": ("Int8", [3])}, "axes/cell": {"": ("String", [3])}},
)


def test_it_is_read_as_it_was_written() -> None:
    """Shapes and types of the arrays of each property."""
    again = SidecarDocument.parse(DOCUMENT.text())
    assert again == DOCUMENT
    assert again.properties == ("vectors/cell/age", "axes/cell")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "it has the format 2, not 1"),
        ({"format": None}, "it has the format None, not 1"),
        ({"arrays": []}, "is malformed"),
        ({"arrays": {"axes/cell": {"": ["String"]}}}, "is malformed"),
        ({"arrays": {"axes/cell": {"": ["String", ["x"]]}}}, "is malformed"),
        ({"other": 1}, "is malformed"),
        ({"format": True}, "it has the format True, not 1"),
        ({"arrays": {"axes/cell": {"": ["String", [float("inf")]]}}}, "is malformed"),
        ({"arrays": {"axes/cell": {"": ["String", [float("nan")]]}}}, "is malformed"),
        ({"arrays": {"matrices": {}}}, "is malformed"),
        ({"arrays": {"matrices/x": {}}}, "is malformed"),
        ({"arrays": {"matrices/obs/var": {}}}, "is malformed"),
        ({"arrays": {"vectors/cell/age/nzind": {}}}, "is malformed"),
        ({"arrays": {"": {}}}, "is malformed"),
        ({"arrays": {"scalars/x": {}}}, "is malformed"),
    ],
)
def test_what_is_none(change: dict[str, Any], message: str) -> None:
    """Another version is named as such; all else is malformed."""
    text = json.dumps({**json.loads(DOCUMENT.text()), **change})
    with pytest.raises(errors.CorruptDataError, match=message):
        SidecarDocument.parse(text)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "{}", "[" * 100_000])
def test_what_is_no_document(text: str) -> None:
    """Whatever else its scalar holds."""
    with pytest.raises(errors.CorruptDataError, match="its scalar .* is malformed"):
        SidecarDocument.parse(text)
