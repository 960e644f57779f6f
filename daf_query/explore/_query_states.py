"""The states of the queries of the page: running, done, failed or cancelled."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from daf_query.explore._failures import CancelledError, failure, refusal

_MOST_REMEMBERED: Final = 1000


@dataclass(frozen=True, slots=True)
class QueryState:
    """What became of a query."""

    state: Literal["running", "done", "failed", "cancelled"]
    rows: int = 0
    """How many were sent."""
    truncated: bool = False
    """Whether there are more, which the limits left out."""
    seconds: float = 0.0
    error: dict[str, Any] | None = None


class Queries:
    """The last queries, by the names that the page gave them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: OrderedDict[str, QueryState] = OrderedDict()
        self._begun: dict[str, float] = {}

    def begin(self, name: str) -> None:
        """Remember a query.

        Raises
        ------
        RequestError
            One of this name runs.
        """
        with self._lock:
            known = self._states.get(name)
            if known is not None and known.state == "running":
                raise refusal(409, f"a query {name!r} runs already", "give each query its own id")
            self._states[name] = QueryState("running")
            self._states.move_to_end(name)
            self._begun[name] = time.monotonic()
            while len(self._states) > _MOST_REMEMBERED:
                forgotten, _ = self._states.popitem(last=False)
                self._begun.pop(forgotten, None)

    def find(self, name: str) -> QueryState:
        """Return what became of a query.

        Raises
        ------
        RequestError
            There is none of this name.
        """
        with self._lock:
            state = self._states.get(name)
            if state is None:
                raise refusal(404, f"there is no query {name!r}; it was never sent, or long ago")
            if state.state == "running":
                return replace(state, seconds=time.monotonic() - self._begun[name])
            return state

    def sent(self, name: str, rows: int, *, truncated: bool = False) -> None:
        """Remember how many rows were sent."""
        self._change(name, rows=rows, truncated=truncated)

    def end(self, name: str, error: BaseException | None, sql: str) -> None:
        """Remember how a query ended."""
        state: dict[str, Any] = {"state": "done"}
        if isinstance(error, CancelledError):
            state = {"state": "cancelled"}
        elif error is not None:
            state = {"state": "failed", "error": failure(error, sql)[1].to_dict()}
        self._change(name, **state)

    def _change(self, name: str, **changes: Any) -> None:
        with self._lock:
            state = self._states.get(name)
            if state is not None and state.state == "running":
                seconds = time.monotonic() - self._begun[name]
                self._states[name] = replace(state, seconds=seconds, **changes)
