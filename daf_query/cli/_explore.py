"""The command `explore`: data sets in the browser."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import webbrowser
from typing import Any, Final

from daf_query import explore
from daf_query.explore import ExploredData, ExploreLimits
from daf_query.session import DafSession, connect, named_sources
from daf_storage import errors
from daf_storage.spi import optional_import

_SCREENS: Final = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
"""Variables of the environment of which one is set where there are windows."""


def explore_command(options: argparse.Namespace) -> None:
    """Serve the explorer until interrupted."""
    for module in ("starlette", "uvicorn"):
        optional_import(module, extra="explore")
    server_of: Any = explore.ExploreServer  # imported here, since it needs both
    if options.write is not None and len(options.paths) > 1:
        raise errors.InvalidInputError(
            f"--write saves vectors of one data set, and there are {len(options.paths)}; name one"
        )
    limits = _limits(options)
    data = ExploredData(lambda: _connected(options), options.paths, options.write)
    with (
        contextlib.closing(data),
        server_of(data, port=options.port, limits=limits) as server,
    ):
        start = {"query": options.query, "color": options.color}
        address = server.page_url(**start)
        print(f"exploring {', '.join(options.paths)} at {address}", flush=True)
        print("stop with Ctrl-C", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            if not options.no_browser and _has_screen():
                webbrowser.open(server.opening_url(**start))
            server.serve_forever()


def _has_screen() -> bool:
    """Return whether a browser would open in a window, and not in this terminal."""
    return sys.platform == "darwin" or any(map(os.environ.get, _SCREENS))


def _connected(options: argparse.Namespace) -> DafSession:
    if options.write is not None:
        return connect(options.paths[0], overlay=options.write)
    sources: dict[str, Any] = named_sources(options.paths)
    return connect(sources)


def _limits(options: argparse.Namespace) -> ExploreLimits:
    given = {"rows": options.max_rows, "bytes": options.max_bytes, "seconds": options.seconds}
    return ExploreLimits(**{name: value for name, value in given.items() if value is not None})
