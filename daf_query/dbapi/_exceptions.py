"""The exceptions of PEP 249, each also a `DafError`, and which of ours is which.

::

    DafError
    ├── Warning
    └── Error
        ├── InterfaceError              the connection or the cursor is closed
        └── DatabaseError
            ├── ProgrammingError        SQL, names or parameters that are wrong
            ├── NotSupportedError       what would change something, or needs another package
            ├── OperationalError        a file, a server or the memory fails
            ├── DataError               values that cannot be read, or computed with
            ├── IntegrityError          never raised: nothing is written
            └── InternalError           never raised
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from daf_storage import DafError, errors


class Warning(DafError):  # noqa: A001, N818 - PEP 249 calls it that
    """Never raised: warnings are those of Python."""


class Error(DafError):
    """Whatever goes wrong."""


class InterfaceError(Error):
    """The connection or the cursor is closed."""


class DatabaseError(Error):
    """An error of the data, or of what was asked of it."""


class ProgrammingError(DatabaseError):
    """SQL, names or parameters that are wrong."""


class NotSupportedError(DatabaseError):
    """A statement would change something, or something needs a package that is not installed."""


class OperationalError(DatabaseError):
    """A file, a server or the memory fails."""


class DataError(DatabaseError):
    """Values cannot be read, or not be computed with."""


class IntegrityError(DatabaseError):
    """Never raised: nothing is written."""


class InternalError(DatabaseError):
    """Never raised."""


_TYPES: Final[tuple[tuple[type[DafError], type[Error]], ...]] = (
    (errors.ReadOnlyError, NotSupportedError),
    (errors.MissingDependencyError, NotSupportedError),
    (errors.UnsupportedInputError, NotSupportedError),
    (errors.InvalidInputError, ProgrammingError),
    (errors.NotFoundError, ProgrammingError),
    (errors.FormatError, DataError),
    (errors.RemoteError, OperationalError),
    (errors.StorageError, OperationalError),
    (errors.BudgetError, OperationalError),
    (errors.ForkedProcessError, OperationalError),
)
"""Which of PEP 249 an error of ours is; the first that fits."""


@contextmanager
def pep_249() -> Iterator[None]:
    """Raise errors of ours as those of PEP 249, with the same sentence."""
    try:
        yield
    except Error:
        raise
    except DafError as error:
        fitting = (theirs for ours, theirs in _TYPES if isinstance(error, ours))
        raise next(fitting, DatabaseError)(_sentence(error)) from error


def _sentence(error: DafError) -> str:
    """Return the message; what may be passed to `sql`, cannot be passed here."""
    is_refused = isinstance(error, errors.ReadOnlyError) and error.remedy is not None
    return f"{error.sentence(None)}; a connection only reads" if is_refused else str(error)
