"""A group of Zarr arrays as a table, against zarr-datafusion-search on the very same arrays.

    python3.11 -m venv /tmp/other
    /tmp/other/bin/pip install zarr-datafusion-search "datafusion>=53,<54" obstore
    python benchmarks/zarr_search.py --other /tmp/other/bin/python [--small]

That package needs an older datafusion, so it runs in an environment of its own; without ``--other``
only ours is measured.  Times are the best of a few runs, warm, each side in a process of its own,
one after the other.  Every answer is compared with the others'.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RUNS = 5
CHUNK_ROWS = 1 << 17


def queries(n: int) -> dict[str, str]:
    """Return what is asked."""
    names = ", ".join(f"'cell_{i * (n // 101)}'" for i in range(100))
    return {
        "count(*)": "SELECT count(*) AS n FROM cell",
        "numeric filter": "SELECT count(*) AS n FROM cell WHERE age > 98 AND score > 0.5",
        "numeric filter, rows": "SELECT score, batch FROM cell WHERE age > 98 AND score > 0.99 ORDER BY score",
        "range of a sorted column": "SELECT round(sum(score), 4) AS s FROM cell WHERE batch BETWEEN 500 AND 503",
        "text equality": "SELECT count(*) AS n FROM cell WHERE donor = 'donor7'",
        "IN of 100 names": f"SELECT name, age FROM cell WHERE name IN ({names}) ORDER BY name",
        "group by": "SELECT donor, count(*) AS n, round(avg(score), 8) AS s FROM cell GROUP BY donor ORDER BY donor",
        "top 10": "SELECT score FROM cell ORDER BY score DESC LIMIT 10",
        "join": "SELECT sex, count(*) AS n FROM cell JOIN donor ON cell.donor = donor.name WHERE age > 90 GROUP BY sex ORDER BY sex",
    }


def measure(ask: Callable[[str], Any], n: int) -> dict[str, Any]:
    """Return the best milliseconds and the answer of each query, or why there is none."""
    found: dict[str, Any] = {}
    for label, query in queries(n).items():
        try:
            times = []
            for _ in range(RUNS):
                start = time.perf_counter()
                table = ask(query)
                times.append(time.perf_counter() - start)
            found[label] = {"ms": 1e3 * min(times), "rows": str(table.to_pylist())}
        except Exception as error:  # noqa: BLE001 - whatever the other package raises
            found[label] = {"problem": " ".join(str(error).split())[:60]}
    return found


def run_other(store: str, n: int) -> None:
    """Measure the other package; runs in its own environment."""
    import obstore.store
    import pyarrow as pa
    from datafusion import SessionContext
    from zarr_datafusion_search import ZarrTable

    async def tables() -> list[Any]:
        local = obstore.store.LocalStore(store)
        return [await ZarrTable.from_obstore(local, path) for path in ("/meta", "/donor")]

    context = SessionContext()
    held = asyncio.run(tables())
    for name, table in zip(("cell", "donor"), held, strict=True):
        context.register_table(name, table)
    found = measure(lambda query: pa.table(context.sql(query)), n)
    print(json.dumps(found))


def run_ours(store: str, n: int) -> None:
    """Measure the same arrays as tables of ours."""
    from daf_query import connect, zarr_table

    session = connect({"cell": zarr_table(store), "donor": zarr_table(store, "donor")})
    print(json.dumps(measure(lambda query: session.sql(query).to_arrow_table(), n)))


def run_daf(store: str, n: int) -> None:
    """Measure the same data as a Daf data set."""
    from daf_query import connect

    session = connect(f"{store}.daf.zarr")
    print(json.dumps(measure(lambda query: session.sql(query).to_arrow_table(), n)))


def make(store: str, n: int) -> None:
    """Write the arrays, and the data set."""
    import numpy as np
    import zarr

    from daf_storage import DafWriter, open_daf

    rng = np.random.default_rng(0)
    donors = np.array([f"donor{i}" for i in range(50)])
    columns = {
        "name": np.char.add("cell_", np.arange(n).astype(str)),
        "age": rng.integers(0, 100, n).astype("u1"),
        "score": rng.random(n),
        "donor": donors[rng.integers(0, 50, n)],
        "batch": np.sort(rng.integers(0, 1000, n)).astype("i4"),
    }
    sex = np.array(["f", "m"])[rng.integers(0, 2, 50)]
    root = zarr.open_group(store, mode="w")
    for group, table in (("meta", columns), ("donor", {"name": donors, "sex": sex})):
        made = root.create_group(group)
        for name, values in table.items():
            rows = min(CHUNK_ROWS, len(values))
            is_string = values.dtype.kind == "U"
            kind: Any = str if is_string else values.dtype
            array = made.create_array(name, shape=(len(values),), chunks=(rows,), dtype=kind)
            array[:] = values.astype(object) if is_string else values
    daf = open_daf(f"{store}.daf.zarr", "w")
    assert isinstance(daf, DafWriter)
    daf.add_axis("cell", list(columns["name"]))
    for name in ("age", "score", "donor", "batch"):
        daf.set_vector("cell", name, columns[name])
    daf.add_axis("donor", list(donors))
    daf.set_vector("donor", "sex", sex)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--other", metavar="PYTHON", help="the environment of the other package")
    parser.add_argument("--small", action="store_true", help="a fiftieth of the data")
    parser.add_argument("--run", nargs=2, metavar=("SIDE", "STORE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    n = 40_000 if options.small else 2_000_000
    if options.run:
        sides = {"other": run_other, "table": run_ours, "daf": run_daf}
        sides[options.run[0]](options.run[1], n)
        return
    with tempfile.TemporaryDirectory() as folder:
        store = f"{folder}/cells.zarr"
        make(store, n)
        pythons = {"daf": sys.executable, "table": sys.executable}
        if options.other:
            pythons["other"] = options.other
        found = {}
        for side, python in pythons.items():
            size = ["--small"] if options.small else []
            command = [python, str(Path(__file__)), "--run", side, store, *size]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[side] = json.loads(done.stdout)
    print(f"{n:,} rows, milliseconds; ratios of zarr-datafusion-search to each of ours")
    print(f"{'':<26}{'daf':>9}{'zarr_table':>12}{'search':>9}{'/ daf':>9}{'/ zarr_table':>14}")
    for label, ours in found["daf"].items():
        table, other = found["table"][label], found.get("other", {}).get(label, {"problem": "-"})
        assert ours["rows"] == table["rows"], label
        line = f"{label:<26}{ours['ms']:>9.1f}{table['ms']:>12.1f}"
        if "ms" in other:
            assert ours["rows"] == other["rows"], label
            ratios = [other["ms"] / one["ms"] for one in (ours, table)]
            print(f"{line}{other['ms']:>9.1f}{ratios[0]:>7.1f} x{ratios[1]:>12.1f} x")
        else:
            print(f"{line}  {other['problem']}")


if __name__ == "__main__":
    main()
