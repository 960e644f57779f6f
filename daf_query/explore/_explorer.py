"""The explorer: the data, the limits, the runs, and the tickets that were given out."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from daf_query._runs import Runs
from daf_query.explore._data import ExploredData, ExploreLimits, Positions
from daf_query.explore._http import Part, RunResponse, endings, refusal
from daf_query.explore._remembered import Queries, Tickets
from daf_query.session import DafSession

Produce = Callable[[], Iterator[Part]]
"""Yields a head and what follows; called in a thread of its own."""

_MOST_DOWNLOADS: Final = 2


@dataclass(frozen=True, slots=True)
class Download:
    """A file that is made when it is fetched."""

    name: str
    """The name of the file."""
    media_type: str
    write: Callable[[Path], None]
    """Writes it to a path."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Entries of an axis that are selected in the page."""

    id: str
    """Another one for each selection."""
    session: DafSession
    """Where it is a table."""
    table: str
    """The name of that."""
    schema: str
    axis: str
    positions: Positions
    """Ascending, each once."""


class Explorer:
    """The explorer of some data."""

    def __init__(self, data: ExploredData, limits: ExploreLimits) -> None:
        self.data = data
        """What is explored."""
        self.limits = limits
        """What is given at most."""
        self.runs = Runs(endings(), max_seconds=limits.seconds, max_queries=limits.queries)
        """What is computed at this moment."""
        self.queries = Queries()
        """What became of the queries of the page, and the rows of the last of them."""
        self.exports = Runs(endings(), max_seconds=None, max_queries=_MOST_DOWNLOADS)
        """The downloads of this moment, which may take long."""
        self.downloads: Tickets[Download] = Tickets()
        """The downloads that were asked for."""
        self.selection: Selection | None = None
        """The entries that are selected in the page."""
        self.summaries: OrderedDict[Hashable, dict[str, Any]] = OrderedDict()
        """The summaries that were asked for last."""
        self.lock = threading.Lock()
        """Held while the selection or a summary is changed."""
        self.openings: Tickets[str] = Tickets()
        """The address of the page, for browsers that are opened."""

    @property
    def session(self) -> DafSession:
        """The session, unless a data set was replaced."""
        return self.data.session

    def response(self, produce: Produce, *, sql: str = "") -> RunResponse:
        """Return an answer that is computed by a run."""
        return RunResponse(lambda is_gone: self.runs.start(produce, is_abandoned=is_gone), sql=sql)

    def close(self) -> None:
        """End all that is computed."""
        self.runs.close()
        self.exports.close()

    def check_bytes(self, size: int) -> None:
        """Refuse an answer that is larger than the limit."""
        if size > self.limits.bytes:
            raise refusal(
                413,
                f"the answer has {size:,} bytes, more than the limit of {self.limits.bytes:,}",
                "start daf explore with a larger --max-bytes",
            )
