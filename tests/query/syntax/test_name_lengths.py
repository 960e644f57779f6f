"""Tests of names that are too long for the engine."""

from __future__ import annotations

import pytest

from daf_query import connect
from daf_query.syntax import parsed
from daf_storage import MemoryDaf, errors

LONG = "x" * 1_000_000
QUERIES = (
    f"SELECT {LONG} FROM cell",
    f'SELECT age AS "{LONG}" FROM cell ORDER BY "{LONG}y"',
    f"SELECT * FROM `{LONG}`",
    f"SELECT {LONG}(age) FROM cell",
    'SELECT "' + '""' * 600 + '" FROM cell',
)


@pytest.mark.parametrize("number", range(len(QUERIES)))
def test_a_name_of_a_megabyte_is_refused_in_a_sentence(number: int) -> None:
    """The engine would compare two of them for hours, and repeat them in its message."""
    daf = MemoryDaf(name="m")
    daf.add_axis("cell", ["A", "B"])
    daf.set_vector("cell", "age", [1, 2])
    with pytest.raises(errors.QueryError, match="more than 1,000, that begins with") as raised:
        connect(daf).sql(QUERIES[number])
    assert len(str(raised.value)) < 300


def test_long_strings_and_comments_are_no_names() -> None:
    """Only names are compared with others; neither is what stands between two of them."""
    assert parsed(f"SELECT '{LONG}', '' /* {LONG} */ -- {LONG}").tree
    assert parsed(f'SELECT "a", {"1, " * 1000} "b", "{"x" * 998}" FROM cell').tree
    with pytest.raises(errors.QueryError, match="a name of 1,001 characters"):
        parsed(f'SELECT "{"x" * 999}" FROM cell')
