"""The plan of a query: a frame to be executed, and one to be built upon."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import datafusion

from daf_query.sql._unique_columns import with_unique_columns


@dataclass(frozen=True)
class Planned:
    """The plan of a query."""

    executed: datafusion.DataFrame
    """To be executed as it is."""
    extendable: Callable[[], datafusion.DataFrame] | None = None
    """Plans what is built upon; None if that is the same."""

    @property
    def frame(self) -> datafusion.DataFrame:
        """To be built upon."""
        return self.executed if self.extendable is None else self.extendable()

    def with_unique_columns(self, once: tuple[str, ...]) -> Planned:
        """Return the plan with a name of its own for each column.

        Parameters
        ----------
        once
            Names of columns that it must not have twice.
        """
        executed, extendable = with_unique_columns(self.executed, once=once), self.extendable
        if extendable is None:
            return Planned(executed)
        return Planned(
            executed, lambda: with_unique_columns(extendable(), once=once, is_reported=False)
        )
