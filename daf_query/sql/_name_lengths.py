"""Refuse names that are far longer than any: the engine compares them with all that there are.

Its suggestions for a name that it does not know take the product of both lengths: for one of a
million characters, hours, which nothing can interrupt.
"""

from __future__ import annotations

import re
from typing import Final

from daf_query.sql._tokens import tokens_of
from daf_storage import errors

_MOST: Final = 1000
_SHOWN: Final = 40
_NAMES: Final = ("word", "quoted", "parameter")
_FEWEST: Final = (_MOST - 1) // 2
"""How many characters a long name has between its quotes; if it is of quotes, which are doubled."""
_MAY_BE_LONG: Final = re.compile(
    rf'\w{{{_MOST}}}|"(?:[^"]|""){{{_FEWEST}}}|`(?:[^`]|``){{{_FEWEST}}}'
)


def check_names(query: str) -> None:
    """Refuse a query with a name that is too long; strings may have any length.

    Raises
    ------
    QueryError
        The message shows how the name begins.

    Examples
    --------
    >>> check_names("SELECT age AS " + "a" * 2000)
    Traceback (most recent call last):
        ...
    daf_storage.errors.QueryError: the query has a name of 2,000 characters, more than 1,000, that
    begins with 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'; write a shorter one, or a string in
    single quotes
    """
    if len(query) <= _MOST or _MAY_BE_LONG.search(query) is None:
        return
    for token in tokens_of(query):
        size = token.stop - token.start
        if token.kind in _NAMES and size > _MOST:
            shown = query[token.start : token.start + _SHOWN]
            raise errors.QueryError(
                f"the query has a name of {size:,} characters, more than {_MOST:,}, that begins "
                f"with {shown!r}; write a shorter one, or a string in single quotes"
            )
