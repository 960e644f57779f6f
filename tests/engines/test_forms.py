"""The forms that engines read hold the same rows."""

from __future__ import annotations

import pytest

from daf_query import connect
from tests.engines.conftest import CELLS, FORMS


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_rows_of_the_plain_one(forms: dict[str, str], form: str) -> None:
    """What engines are compared with is the same in every form."""
    query = "SELECT name, age, score, donor, cell_type, is_doublet FROM obs ORDER BY name"
    with connect(forms["plain"]) as plain, connect(forms[form]) as other:
        expected = plain.sql(query).to_arrow_table()
        assert expected.num_rows == CELLS
        assert other.sql(query).to_pylist() == expected.to_pylist()
