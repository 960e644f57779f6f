"""The example data sets, beside what the reference implementation says of its own."""

from __future__ import annotations

import re
from pathlib import Path

import daf_query
import daf_storage
from daf_storage.examples import example_cells_daf, example_chain_daf, example_metacells_daf

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "daf-functions.md"


def test_the_chain_has_the_axes_and_properties_of_the_reference() -> None:
    """Sizes, names and types are those of its documentation."""
    daf = example_chain_daf()
    assert {axis: daf.axis_length(axis) for axis in daf.axes_set()} == {
        "cell": 856,
        "donor": 95,
        "experiment": 23,
        "gene": 683,
        "metacell": 7,
        "type": 4,
    }
    types = {
        (axis, name): str(daf.get_np_vector(axis, name).dtype)
        for axis in daf.axes_set()
        for name in daf.vectors_set(axis)
    }
    assert types == {
        ("cell", "donor"): "object",
        ("cell", "experiment"): "object",
        ("cell", "metacell"): "object",
        ("donor", "age"): "uint32",
        ("donor", "sex"): "object",
        ("gene", "is_lateral"): "bool",
        ("gene", "is_marker"): "bool",
        ("metacell", "type"): "object",
        ("type", "color"): "object",
    }
    assert daf.get_np_matrix("cell", "gene", "UMIs").dtype == "uint8"
    assert (
        daf.get_np_matrix("gene", "metacell", "fraction").sum(axis=0).round(5).tolist() == [1] * 7
    )
    assert daf.get_np_matrix("metacell", "metacell", "edge_weight").dtype == "float32"
    assert {name: daf.get_scalar(name) for name in daf.scalars_set()} == {
        "organism": "human",
        "reference": "test",
    }


def test_examples_are_the_same_each_time() -> None:
    """Whoever follows a page sees what it shows."""
    for example in (example_cells_daf, example_metacells_daf):
        first, second = example(), example()
        for daf in (first, second):
            daf.set_scalar("mine", 1)
        query = "SELECT * FROM cell ORDER BY name LIMIT 3"
        assert daf_query.connect(first).sql(query).to_pylist() == (
            daf_query.connect(second).sql(query).to_pylist()
        )


def test_the_page_of_functions_names_what_there_is() -> None:
    """Each name of a package or a class in it exists."""
    names = re.findall(
        r"`(daf_storage|daf_query|DafReader|DafWriter|DafSession)\.(\w+)", PAGE.read_text()
    )
    owners = {
        "daf_storage": daf_storage,
        "daf_query": daf_query,
        "DafReader": daf_storage.DafReader,
        "DafWriter": daf_storage.DafWriter,
        "DafSession": daf_query.DafSession,
    }
    assert len(names) > 50
    modules = {"spi", "examples"}
    assert [
        name for owner, name in names if name not in modules and not hasattr(owners[owner], name)
    ] == []
