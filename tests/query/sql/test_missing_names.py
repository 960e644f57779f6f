"""Tests of what errors say of a column that the axis does not have."""

from __future__ import annotations

import pytest

from daf_query import DafSession, connect
from daf_storage import DafWriter, MemoryDaf, errors


@pytest.fixture
def daf() -> DafWriter:
    """Return a data set with genes, and with donors that cells name."""
    daf = MemoryDaf(name="x")
    daf.add_axis("cell", ["a", "b"])
    daf.add_axis("gene", ["MS4A1", "HLA-DRA", "it's", "MT-CO1"])
    daf.add_axis("donor", ["N1", "N2"])
    daf.add_axis("batch", ["1"])
    daf.set_vector("cell", "age", [1, 2])
    daf.set_vector("cell", "donor.first", ["N1", "N2"])
    daf.set_vector("donor", "sex", ["f", "m"])
    daf.set_vector("batch", "day", [1])
    daf.set_matrix("cell", "gene", "X", [[1, 2, 3, 4], [4, 5, 6, 7]])
    return daf


@pytest.fixture
def session(daf: DafWriter) -> DafSession:
    """Return a session over it."""
    return connect(daf)


def message(session: DafSession, condition: str) -> str:
    """Return what a query with a condition says, which a slice says too."""
    with pytest.raises(errors.VectorNotFoundError) as caught:
        session.sql(f"SELECT name FROM cell WHERE {condition}")
    with pytest.raises(errors.VectorNotFoundError) as of_slice:
        session.matrix("cell", "gene", "X", rows=condition)
    assert str(of_slice.value).startswith(f"rows= on axis 'cell': {caught.value}")
    return str(caught.value)


@pytest.mark.parametrize(
    ("condition", "name", "entry"),
    [
        ("MS4A1 > 1", "MS4A1", "MS4A1"),
        ('"MS4A1" > 1', "MS4A1", "MS4A1"),
        ("age > 1 AND ms4a1 > 1", "ms4a1", "MS4A1"),
        ("HLA-DRA > 1", "HLA", "HLA-DRA"),
        ("age > 1 AND 2 < MT-CO1", "MT", "MT-CO1"),
    ],
)
def test_an_entry_of_another_axis(
    session: DafSession, condition: str, name: str, entry: str
) -> None:
    """The message says how a query names it, and does not list all vectors."""
    assert message(session, condition) == (
        f"<memory>: axis 'cell' has no vector {name!r}; {entry!r} is an entry of axis 'gene': "
        f"write X['{entry}']"
    )


def test_matrices_that_share_a_name(daf: DafWriter) -> None:
    """The axis says which is meant; other names stand for themselves, three at most."""
    daf.add_axis("gene_raw", ["MS4A1", "CST3"])
    daf.set_matrix("cell", "gene_raw", "X", [[1, 2], [4, 5]])
    for name in ("UMIs", "b c", "z"):
        daf.set_matrix("cell", "gene_raw", name, [[1, 2], [4, 5]])
    said = message(connect(daf), "MS4A1 > 1")
    assert said.endswith(
        "'MS4A1' is an entry of axis 'gene': write \"gene.X\"['MS4A1']; 'MS4A1' is an entry of "
        "axis 'gene_raw': write UMIs['MS4A1'] or \"gene_raw.X\"['MS4A1'] or \"b c\"['MS4A1']"
    )


def test_a_vector_of_another_axis(session: DafSession) -> None:
    """With the join, if a vector has entries of that axis by its name."""
    assert message(session, "sex = 'f'").endswith(
        "axis 'donor' has a vector of that name: JOIN donor ON "
        'cell."donor.first" = donor.name, or cell."donor.first" IN (SELECT name FROM donor WHERE '
        "...)"
    )
    assert message(session, "day = 1").endswith("axis 'batch' has a vector of that name")
    joined = "SELECT cell.name FROM cell JOIN donor ON cell.\"donor.first\" = donor.name WHERE sex = 'f'"  # fmt: skip
    assert session.sql(joined).to_pydict() == {"name": ["a"]}
    predicate = "cell.\"donor.first\" IN (SELECT name FROM donor WHERE sex = 'f')"
    assert session.matrix("cell", "gene", "X", rows=predicate).shape == (1, 4)
