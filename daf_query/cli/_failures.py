"""Errors as the command line prints them: one sentence, in its words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daf_query.cli._option_names import in_options
from daf_storage import DafError, errors
from daf_storage.spi import lazy_module

if TYPE_CHECKING:
    from daf_query import sql
else:
    sql = lazy_module("daf_query.sql")


def failure_sentence(error: Exception, target: str = "") -> str:
    """Return what is printed of an error; of the engine's, which raises plain ones, the core.

    Parameters
    ----------
    target
        The file that was being written, where the error of the system names none.

    Examples
    --------
    >>> failure_sentence(errors.path_exists("x.daf.zarr"))
    'x.daf.zarr exists already; pass --overwrite to replace it, or name another path'
    """
    if isinstance(error, DafError):  # some are errors of the system, too
        return in_options(error)
    if isinstance(error, OSError):
        return str(errors.from_os_error(error, "" if error.filename is not None else target))
    if isinstance(error, MemoryError):
        return "not enough memory for the result; ask for fewer rows or columns"
    return sql.strip_prefixes(str(error)) or type(error).__name__
