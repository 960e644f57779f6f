"""A check that what tasks read is the data that their graph was made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from daf_storage import errors


@dataclass(frozen=True, slots=True)
class VersionedData:
    """Some properties of a data set, and the version that they had when a graph was made."""

    location: str
    """The data set, for messages."""
    what: str
    """The properties, for messages."""
    version: str | None
    """Of `daf_storage.spi.matrix_version` or ``vectors_version``; None where nothing shows it."""

    def is_current(self, look: Callable[[], str | None]) -> bool:
        """Return whether a data set still has this version."""
        if self.version is None:
            return True
        try:
            return look() == self.version
        except (errors.NotFoundError, errors.FormatError, OSError):
            return False

    def check(self, look: Callable[[], str | None]) -> None:
        """Refuse what was read, unless the data is still the same.

        Raises
        ------
        InvalidInputError
            It was changed or replaced.
        """
        if not self.is_current(look):
            raise errors.InvalidInputError(
                f"{self.location}: {self.what} was changed or replaced since this Dask collection "
                "was made of it, so its blocks may not belong together; make it again"
            )
