"""Count and time what is asked of a server, in one run: a directory and an archive over HTTP.

    python benchmarks/remote.py            200,000 cells x 2,000 genes, 20 million non-zeros
    python benchmarks/remote.py --small    the same steps on little data

Each line is a task, the requests and bytes that it took, and its time with a server that answers
at once and with one that takes 50 ms; beside it, downloading the whole data set with one request
per file, or one for the archive.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from archive import fill

import daf_query
from daf_storage import DafServer, convert
from daf_storage.upkeep import _serve as serving


class SlowServer(DafServer):
    """A server that counts, and takes its time."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.RequestHandlerClass = _SlowHandler
        self.latency_seconds = 0.0
        self.requests = 0
        self.sent_bytes = 0


class _SlowHandler(serving._Handler):
    server: SlowServer

    def do_GET(self) -> None:  # noqa: N802 - the parent's
        self._wait()
        super().do_GET()

    def do_HEAD(self) -> None:  # noqa: N802 - the parent's
        self._wait()
        super().do_HEAD()

    def send_header(self, keyword: str, value: str) -> None:
        if keyword == "Content-Length" and self.command == "GET":
            self.server.sent_bytes += int(value)
        super().send_header(keyword, value)

    def _wait(self) -> None:
        self.server.requests += 1
        time.sleep(self.server.latency_seconds)


def measure(server: SlowServer, cells: np.ndarray, latency_seconds: float) -> list[tuple[Any, ...]]:
    """Open, query and slice; return what each took."""
    server.latency_seconds = latency_seconds
    rows = []
    session: Any = None
    query = "SELECT count(*) FROM cell WHERE age > 60 AND score > 0.8"
    for what in ("open", "query two columns", f"slice of {cells.size:,} cells"):
        before = server.requests, server.sent_bytes
        started = time.perf_counter()
        if session is None:
            session = daf_query.connect(server.url)
        elif what.startswith("query"):
            session.sql(query).to_pylist()
        else:
            session.matrix("cell", "gene", "X", rows=cells).to_scipy()
        taken = time.perf_counter() - started
        rows.append((what, server.requests - before[0], server.sent_bytes - before[1], taken))
    return rows


def main() -> None:
    """Measure both formats."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="little data, to see that it works")
    small = parser.parse_args().small
    size = {"n_cells": 2_000, "n_genes": 100, "per_cell": 10}
    if not small:
        size = {"n_cells": 200_000, "n_genes": 2_000, "per_cell": 100}
    random = np.random.default_rng(1)
    cells = np.sort(random.choice(size["n_cells"], min(1000, size["n_cells"] // 10), replace=False))
    print(f"{'task':40} {'requests':>9} {'bytes':>12} {'of all':>8} {'0 ms':>9} {'50 ms':>9}")
    with tempfile.TemporaryDirectory() as folder:
        directory, archive = Path(folder) / "x.daf.zarr", Path(folder) / "x.daf.zarr.zip"
        fill(directory, **size)
        convert(directory, archive)
        for path in (directory, archive):
            files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
            total = sum(file.stat().st_size for file in files)
            with SlowServer(path) as server:
                threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
                fast, slow = (measure(server, cells, latency) for latency in (0.0, 0.05))
                server.shutdown()
            for (what, requests, sent, taken), (*_, late) in zip(fast, slow, strict=True):
                kind = "archive" if path == archive else "directory"
                share = sent / total
                print(
                    f"{kind + ': ' + what:40} {requests:9,} {sent:12,} {share:8.2%} "
                    f"{taken * 1000:6.0f} ms {late * 1000:6.0f} ms"
                )


if __name__ == "__main__":
    main()
