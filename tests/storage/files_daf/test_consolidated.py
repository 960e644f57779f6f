"""Tests of the file that has all documents of a data set in it."""

from __future__ import annotations

import json

import pytest

from daf_storage import errors
from daf_storage.files_daf import documents_of, parse_consolidated


@pytest.mark.parametrize("content", ['{"a": 1}', '{"b": {}, "a": []}', '{"a": null}', '{"a": "x"}'])
def test_what_it_says_of_a_path_is_an_object(content: str) -> None:
    """Anything else is damage, and the path is named."""
    for parse in (parse_consolidated, documents_of):
        with pytest.raises(errors.CorruptDataError, match="x: what it says of 'a' is no JSON"):
            parse(content.encode(), what="x")


@pytest.mark.parametrize("content", ["", "[]", "{", "1", '{"a": {}'])
def test_it_is_json(content: str) -> None:
    """An object, and whole."""
    with pytest.raises(errors.CorruptDataError, match="x"):
        parse_consolidated(content.encode(), what="x")


def test_documents_by_their_names() -> None:
    """Each as the file that it is of."""
    content = {"axes/cell": {"format": "x"}, "scalars/n": {"value": 1}}
    found = documents_of(json.dumps(content).encode(), what="x")
    assert {name: json.loads(document) for name, document in found.items()} == {
        f"{path}.json": document for path, document in content.items()
    }
    assert parse_consolidated(b"{}", what="x") == {}
