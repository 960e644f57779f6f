"""Packed arrays: size, and time to read all and a part, against flat ones and zarr-python.

    python benchmarks/packed.py [--small]

All times are from one run on one machine; the ratio is to the first line of each group.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from daf_query import connect
from daf_storage import CodecName, DafWriter, Packing, open_daf
from daf_storage.spi import Span


def best(work: Callable[[], Any], times: int = 3) -> float:
    """Return the seconds of the fastest of a few runs."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def show(label: str, seconds: float, first: float, extra: str = "") -> None:
    """Print one line."""
    print(f"  {label:<30}{extra:<18}{1e3 * seconds:10.2f} ms   {first / seconds:6.2f} x")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true", help="a hundredth of the data")
    n = 100_000 if parser.parse_args().small else 10_000_000
    rng = np.random.default_rng(1)
    scores = np.round(rng.gamma(2, 50, n), 1)
    codecs: list[CodecName | None] = [None, "blosc-zstd", "blosc-lz4", "zstd", "gzip"]
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        print(f"writing {n:,} float64")
        first = 0.0
        for codec in codecs:
            path = Path(folder) / f"{codec}.daf.zarr"
            options: Any = {"packed": Packing(codec)} if codec else {"zarr_format": 3}
            daf = open_daf(path, "w", **options)
            assert isinstance(daf, DafWriter)
            daf.add_axis("cell", np.char.add("c", np.arange(n).astype(str)))
            seconds = best(
                lambda daf=daf: daf.set_vector("cell", "score", scores, if_exists="replace"), 1
            )
            size = (path / "vectors/cell/score/c/0").stat().st_size
            first = first or seconds
            show(codec or "flat", seconds, first, f"{size / scores.nbytes:.0%} of the bytes")
            paths[codec] = path
        for label, query in (
            ("reading all", None),
            ("SQL: a selective filter", "SELECT count(*) FROM cell WHERE score > 900"),
        ):
            print(label)
            first = 0.0
            for codec, path in paths.items():
                daf = open_daf(path)
                db = connect(daf)
                seconds = best(
                    lambda daf=daf, db=db, query=query: (
                        db.sql(query).to_pydict()
                        if query
                        else daf.get_np_vector("cell", "score").sum()
                    )
                )
                first = first or seconds
                show(codec or "flat", seconds, first)
            if query is None:
                array: Any = zarr.open_array(paths["blosc-zstd"] / "vectors/cell/score", mode="r")
                assert np.array_equal(array[: n // 10], scores[: n // 10])
                show("blosc-zstd by zarr-python", best(lambda array=array: array[:], 1), first)
        print("reading 1,000 rows in the middle")
        first = 0.0
        for codec, path in paths.items():
            stored = open_daf(path).tree
            span = slice(n // 2, n // 2 + 1000)

            def part(stored: Any = stored, span: slice = span) -> Any:
                from_disk = stored.node("vectors/cell/score").array()
                return from_disk.read_rows(Span(span.start, span.stop))

            assert np.array_equal(part(), scores[span])
            seconds = best(part)
            first = first or seconds
            show(codec or "flat", seconds, first)


if __name__ == "__main__":
    main()
