"""PEP 249, DBAPI 2.0: a session as a connection, in the same process and read-only.

**Nouns.** A *connection* is to a session; a *cursor* executes queries, and its rows are fetched as
tuples or as Arrow.  Errors are those of PEP 249, with the sentences of ours.

Must not know what a session is made of.
"""

from typing import Final

from daf_query.dbapi._connection import Connection, Cursor, connect
from daf_query.dbapi._exceptions import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,  # noqa: A004 - PEP 249 calls it that
)
from daf_query.dbapi._types import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)

apilevel: Final = "2.0"
"""The version of PEP 249."""
threadsafety: Final = 2
"""Threads may share the module and connections, and not cursors."""
paramstyle: Final = "qmark"
"""Parameters are ``?``; ``$1`` and ``$name`` work, too."""

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]
