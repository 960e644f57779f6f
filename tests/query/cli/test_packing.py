"""Tests of the options that say how data sets are packed."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from daf_query.cli._transfer import counts_of, packing_of
from daf_storage import Packing
from daf_storage.errors import InvalidInputError


@pytest.mark.parametrize(
    ("packed", "codec", "level", "expected"),
    [
        (False, None, None, False),
        (True, None, None, Packing()),
        (False, "gzip", None, Packing("gzip", -1)),
        (False, None, 3, Packing(level=3)),
        (True, "gzip", 1, Packing("gzip", 1)),
    ],
)
def test_each_option_of_packing_packs(
    packed: object, codec: str | None, level: int | None, expected: Any
) -> None:
    """The codec and its level say by themselves that the copy is to be packed."""
    options = argparse.Namespace(packed=packed, codec=codec, level=level, chunk_kb=None)
    assert packing_of(options) == expected
    larger = argparse.Namespace(packed=False, codec=None, level=None, chunk_kb=128)
    assert packing_of(larger, chunk_kb=64) == Packing(chunk_kb=128)
    assert packing_of(
        argparse.Namespace(packed=True, codec="gzip", level=None, chunk_kb=None), chunk_kb=64
    ) == Packing("gzip", chunk_kb=64)


def test_types_of_counts() -> None:
    """A type alone is of the main matrix; several have names."""
    named = argparse.Namespace(counts_as=["spliced=uint8", "UMIs=uint16"])
    assert counts_of(named) == {"spliced": "uint8", "UMIs": "uint16"}
    assert counts_of(argparse.Namespace(counts_as=["uint16"])) == "uint16"
    assert counts_of(argparse.Namespace(counts_as=[])) is None
    with pytest.raises(InvalidInputError, match="each needs the name of its matrix"):
        counts_of(argparse.Namespace(counts_as=["spliced=uint8", "uint16"]))
