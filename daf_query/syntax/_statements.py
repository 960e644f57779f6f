"""The one statement of a SQL text: comments and a semicolon at the end are allowed."""

from __future__ import annotations

from daf_query.syntax._tokens import tokens_of
from daf_storage import errors


def one_statement(text: str, *, source: str = "the query") -> str:
    """Return a text without the semicolon at its end; places in it stay the same.

    Parameters
    ----------
    source
        What messages call it: a file.

    Raises
    ------
    QueryError
        There are several statements, or none; the message says where the second begins.

    Examples
    --------
    >>> one_statement("SELECT 1; -- the end")
    'SELECT 1'
    >>> one_statement("SELECT 1; SELECT 2")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    daf_storage.errors.QueryError: the query has several statements, the second begins at ...
    """
    end: int | None = None
    is_empty = True
    for token in tokens_of(text):
        if token.is_operator(";"):
            end = token.start if end is None else end
        elif end is not None and not is_empty:
            line = text.count("\n", 0, token.start) + 1
            column = token.start - text.rfind("\n", 0, token.start)
            raise errors.QueryError(
                f"{source} has several statements, the second begins at line {line}, column "
                f"{column}; run one at a time"
            )
        else:
            is_empty = False
            end = None
    if is_empty:
        raise errors.QueryError(f"{source} has no SQL; write a SELECT")
    return text if end is None else text[:end]
