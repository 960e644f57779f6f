"""Names as SQL quotes them."""

from __future__ import annotations


def quoted_name(name: str) -> str:
    """Return a name as SQL quotes it.

    >>> quoted_name('a "b" c')
    '"a ""b"" c"'
    """
    return '"' + name.replace('"', '""') + '"'


def unquoted_name(name: str) -> str:
    """Return a name without the quotes that SQL may have around it.

    >>> unquoted_name('"a ""b"" c"'), unquoted_name("age"), unquoted_name('""'), unquoted_name('"')
    ('a "b" c', 'age', '', '"')
    """
    is_quoted = len(name) > 1 and name.startswith('"') and name.endswith('"')
    return name[1:-1].replace('""', '"') if is_quoted else name


def identifier(written: str) -> str:
    """Return the name that a token of a query stands for: a word, or in double quotes or backticks.

    >>> identifier("`a ``b`` c`"), identifier('"age"'), identifier("age")
    ('a `b` c', 'age', 'age')
    """
    if len(written) > 1 and written.startswith("`") and written.endswith("`"):
        return written[1:-1].replace("``", "`")
    return unquoted_name(written)
