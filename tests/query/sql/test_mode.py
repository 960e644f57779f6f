"""The aggregate ``mode``, beside pandas."""

from __future__ import annotations

from typing import Any, Literal

import anndata
import numpy as np
import pandas as pd
import pytest

import daf_query
import daf_storage


@pytest.mark.parametrize("categoricals", ["string", "dictionary"])
def test_mode_is_the_most_frequent_string_of_each_group(
    categoricals: Literal["string", "dictionary"],
) -> None:
    """It ignores missing values, and takes the first in the alphabet of several."""
    rng = np.random.default_rng(1)
    labels = pd.Categorical.from_codes(rng.integers(-1, 3, 20_000), pd.Index(["B", "NK", "T"]))
    frame = pd.DataFrame({"donor": rng.integers(0, 900, 20_000), "type": labels})
    frame.loc[frame["donor"] == 7, "type"] = None
    frame.index = [f"c{n}" for n in range(len(frame))]
    daf = daf_storage.from_anndata(anndata.AnnData(obs=frame))
    db = daf_query.connect(daf, categoricals=categoricals)
    found = db.sql(
        "SELECT donor, mode(type) AS m FROM obs GROUP BY donor ORDER BY donor"
    ).to_pydict()
    assert found["donor"] == list(range(900))
    assert found["m"][7] is None
    groups: Any = frame[frame["donor"] != 7].groupby("donor")["type"]
    for donor, types in groups:
        assert found["m"][donor] == min(types.astype(str)[types.notna()].mode())


def test_mode_of_numbers_and_in_windows() -> None:
    """Numbers become strings; without rows it is NULL; it stands in a window as well."""
    daf = daf_storage.MemoryDaf()
    daf.add_axis("cell", ["A", "B", "C"], vectors={"age": [5, 7, 7]})
    db = daf_query.connect(daf)
    assert db.sql("SELECT mode(age) AS m FROM cell").to_pydict() == {"m": ["7"]}
    assert db.sql("SELECT mode(name) AS m FROM cell WHERE age > 9").to_pydict() == {"m": [None]}
    assert db.sql("SELECT mode(age) OVER () AS m FROM cell").to_pydict() == {"m": ["7"] * 3}
