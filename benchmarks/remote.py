"""Count and time what is asked of a server: h5ad files and data sets of Daf over HTTP, in one run.

    python benchmarks/remote.py            200,000 cells x 20,000 genes, 50 million non-zeros
    python benchmarks/remote.py --small    the same steps on little data

A table in Markdown: a form and its size; of each task the time from the disk, the requests and
bytes that it takes of a server, and its time with a server that takes 20 ms for each answer.  Each
form is asked in one session, so that a task finds what those before it have downloaded.  The last
task of each is the other way: all is downloaded with one request for each file, and then opened
and counted from the disk.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
from attach_data import adata_of
from matrix_data import Scale

import daf_query
from daf_storage import DafServer, convert, import_h5ad

LATENCY_SECONDS = 0.02
NEIGHBOURS = 1_000


class SlowServer(DafServer):
    """A server that counts, and takes its time."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.requests = 0
        self.sent_bytes = 0
        self._files, self._server.application = self._server.application, self._slow

    async def _slow(self, scope: Any, receive: Any, send: Any) -> None:
        async def counted(message: Any) -> None:
            self.sent_bytes += len(message.get("body", b""))
            await send(message)

        self.requests += 1
        await asyncio.sleep(LATENCY_SECONDS)
        await self._files(scope, receive, counted)


class Session:
    """What is asked of one place, in turn."""

    def __init__(self, place: str | Path, scale: Scale) -> None:
        self._place = place
        self._scale = scale
        self._db: Any = None

    def tasks(self) -> dict[str, Callable[[], Any]]:
        """Return what is done, by its name."""
        middle = self._scale.cells // 2
        count = min(NEIGHBOURS, self._scale.cells // 10)
        step = self._scale.cells // count
        return {
            "open": self._open,
            "count by a column": self.count,
            "names of all cells": lambda: self._db.sql("SELECT max(name) FROM obs").to_pylist(),
            f"{count:,} neighbouring cells": self._slice(slice(middle, middle + count)),
            "a gene of all cells": lambda: self._db.matrix(
                "obs", "var", "X", columns=["gene_7"]
            ).to_scipy(),
            f"{count:,} cells all over": self._slice(slice(0, count * step, step)),
        }

    def _open(self) -> None:
        self._db = daf_query.connect(self._place)

    def count(self) -> Any:
        """Return how many cells each type has."""
        if self._db is None:
            self._open()
        return self._db.sql('SELECT "type", count(*) FROM obs GROUP BY "type"').to_pylist()

    def _slice(self, rows: slice) -> Callable[[], Any]:
        return lambda: self._db.matrix("obs", "var", "X", rows=rows).to_scipy()

    def close(self) -> None:
        """Close it."""
        self._db.close()


def measure(path: Path, scale: Scale) -> None:
    """Print the lines of a form."""
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    size = sum(each.stat().st_size for each in files)
    print(f"| **{path.name}**, {size / 1e6:,.1f} MB | | | | |")
    for _ in range(2):  # the second time counts
        local = Session(path, scale)
        times = {what: timed(task)[0] for what, task in local.tasks().items()}
        local.close()
    with SlowServer(path) as server:
        remote = Session(server.url, scale)
        for what, task in remote.tasks().items():
            before = server.requests, server.sent_bytes
            taken, _ = timed(task)
            requests, sent = server.requests - before[0], server.sent_bytes - before[1]
            print(line(what, times[what], requests, sent, taken))
        remote.close()
        before = server.requests, server.sent_bytes
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder, path.name)
            taken, _ = timed(lambda: download(server.url, path, files, copy))
            copied = Session(copy, scale)
            taken += timed(copied.count)[0]
            copied.close()
        requests, sent = server.requests - before[0], server.sent_bytes - before[1]
        print(line("download it all, then count", None, requests, sent, taken))


def download(url: str, path: Path, files: list[Path], copy: Path) -> None:
    """Download each file with one request."""
    for each in files:
        name = each.relative_to(path).as_posix()
        target = copy if name == "." else copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        urllib.request.urlretrieve(url if name == "." else f"{url}/{name}", target)  # noqa: S310 - this machine's


def timed(task: Callable[[], Any]) -> tuple[float, Any]:
    """Return how long a task takes, and what it returns."""
    started = time.perf_counter()
    result = task()
    return time.perf_counter() - started, result


def line(what: str, local: float | None, requests: int, sent: int, taken: float) -> str:
    """Return a line of the table."""
    on_disk = "" if local is None else f"{local * 1000:,.0f} ms"
    return f"| {what} | {on_disk} | {requests:,} | {sent / 1e6:,.1f} MB | {taken * 1000:,.0f} ms |"


def main() -> None:
    """Measure all forms."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="little data, to see that it works")
    parser.add_argument("--columns", type=int, default=12, help="how many obs has")
    parser.add_argument("--folder", type=Path, help="where the data are kept for the next run")
    options = parser.parse_args()
    scale = Scale(2_000, 100, 10) if options.small else Scale(200_000, 20_000, 250)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        write(folder, scale, options.columns)
        print("| task | from the disk | requests | bytes | over HTTP |")
        print("| --- | --- | --- | --- | --- |")
        for name in ("plain.h5ad", "gzip.h5ad", "x.daf.zarr", "x.daf.zarr.zip"):
            measure(folder / name, scale)


def write(folder: Path, scale: Scale, columns: int) -> None:
    """Write the forms that are not there."""
    plain = folder / "plain.h5ad"
    if not plain.exists():
        adata: anndata.AnnData = adata_of(scale)
        adata.obs = adata.obs.iloc[:, :columns]
        adata.write_h5ad(folder / "gzip.h5ad", compression="gzip")
        adata.write_h5ad(plain)
        import_h5ad(plain, folder / "x.daf.zarr", progress="never")
        convert(folder / "x.daf.zarr", folder / "x.daf.zarr.zip", progress="never")


if __name__ == "__main__":
    main()
