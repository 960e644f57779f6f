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
