"""Dask with two worker processes: they read by path, whatever happens to them or to the file."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
import scipy.sparse as sp

from daf_query import connect
from daf_storage import ZarrDaf, errors
from tests.engines.conftest import CELLS, FORMS, GENES
from tests.engines.dask_tasks import processes, slow_sums
from tests.support import data_set

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Start two worker processes of one thread each, on loopback; they end with the module."""
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",  # None would take port 8787, which others may have
        scheduler_kwargs={"dashboard": False},
        silence_logs=50,
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: Any) -> Iterator[Any]:
    """Connect to them."""
    with distributed.Client(cluster) as client:
        yield client


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.usefixtures("client")
def test_workers_read_every_form_by_path(forms: dict[str, str], form: str) -> None:
    """Blocks and partitions equal what the session says."""
    with connect(forms[form]) as db:
        part = db.matrix("obs", "var", "X", rows="age > 20 AND donor <> 'd2'", columns=[3, 1, 20])
        array = part.to_dask(rows_per_block=40)
        assert (array.compute().toarray() == part.to_numpy()).all()
        frame = db.table("obs").to_dask_dataframe(rows_per_partition=90)
        counted = frame[frame.age > 20].groupby("donor").score.agg(["count", "max"]).compute()
        expected = db.sql(
            "SELECT donor, count(score) AS n, max(score) AS best FROM obs WHERE age > 20 "
            "AND score = score GROUP BY donor ORDER BY donor"
        ).to_pandas()
        counted = counted.sort_index()
        assert counted.index.tolist() == expected["donor"].tolist()
        assert counted["count"].tolist() == expected["n"].tolist()
        np.testing.assert_allclose(counted["max"], expected["best"])
        pushed = db.table("obs").to_dask_dataframe(filter=pc.field("age") > 20)
        query = "SELECT count(*) AS n FROM obs WHERE age > 20"
        assert len(pushed) == db.sql(query).to_pydict()["n"][0]


@pytest.mark.usefixtures("client")
def test_both_workers_read(forms: dict[str, str], tmp_path: Path) -> None:
    """Neither of them is this process, and the graph outlives the session."""
    with connect(forms["plain"]) as db:
        part = db.matrix("obs", "var", "X")
        array, total = part.to_dask(rows_per_block=50), part.to_scipy().sum()
    sums = slow_sums(array, tmp_path, 0.1)
    assert sums.compute().sum() == total
    assert len(processes(tmp_path)) == 2
    assert os.getpid() not in processes(tmp_path)


def test_a_worker_killed_in_the_middle(client: Any, forms: dict[str, str], tmp_path: Path) -> None:
    """Its blocks are read again by another; the sum is right."""
    with connect(forms["packed"]) as db:
        part = db.matrix("obs", "var", "X")
        array, total = part.to_dask(rows_per_block=20), part.to_scipy().sum()
    sums = slow_sums(array, tmp_path, 0.15)
    future = client.compute(sums.sum())
    while len(list(tmp_path.iterdir())) < 6:
        time.sleep(0.02)
    victim = processes(tmp_path).pop()
    assert victim != os.getpid()
    os.kill(victim, signal.SIGKILL)
    assert future.result(timeout=60) == total
    client.wait_for_workers(2, timeout=60)


@pytest.mark.parametrize("form", ["plain", "zipped", "h5ad"])
def test_a_file_replaced_in_the_middle(
    client: Any, forms: dict[str, str], form: str, tmp_path: Path
) -> None:
    """An error that says so, not the values of both."""
    path = tmp_path / Path(forms[form]).name
    folder = tmp_path / "begun"
    folder.mkdir()

    # With times of its own.
    of_folders = partial(shutil.copytree, copy_function=shutil.copy)
    copied: Any = of_folders if Path(forms[form]).is_dir() else shutil.copy
    copied(forms[form], path)
    with connect(path) as db:
        array = db.matrix("obs", "var", "X").to_dask(rows_per_block=20)
    sums = slow_sums(array, folder, 0.1)
    future = client.compute(sums.sum())
    while len(list(folder.iterdir())) < 4:
        time.sleep(0.02)
    copied(forms[form], tmp_path / "other")
    if path.is_dir():
        path.rename(tmp_path / "old")
    (tmp_path / "other").rename(path)
    with pytest.raises(errors.InvalidInputError, match="was changed or replaced since"):
        future.result(timeout=60)


@pytest.mark.usefixtures("client")
def test_memory_cannot_travel() -> None:
    """The error says what to do; threads of this process compute it."""
    daf = data_set(name="tiny", cell=["a", "b"], gene=["g"])
    daf.set_matrix("cell", "gene", "X", sp.csc_array(np.array([[1.0], [2.0]])))
    array = connect(daf).matrix("cell", "gene", "X").to_dask()
    with pytest.raises(errors.InvalidInputError, match=r"no path leads to this .*copy_all\(\)"):
        array.compute()
    assert array.compute(scheduler="threads").toarray().tolist() == [[1.0], [2.0]]


@pytest.mark.usefixtures("client")
def test_open_for_writing_in_this_process(tmp_path: Path) -> None:
    """Workers read what was written, by the path of the writer."""
    daf = data_set(ZarrDaf(tmp_path / "x.daf.zarr", "w"), cell=CELLS, gene=GENES)
    values = sp.random_array((CELLS, GENES), density=0.2, format="csc")
    daf.set_matrix("cell", "gene", "X", values)
    array = connect(daf).matrix("cell", "gene", "X").to_dask(rows_per_block=99)
    assert (array.compute() != values.tocsr()).nnz == 0
