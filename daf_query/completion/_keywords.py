"""Keywords of SQL, as they are offered."""

from __future__ import annotations

from typing import Final

BEGINNINGS: Final = ("SELECT", "FROM", "WITH", "EXPLAIN", "DESCRIBE", "SHOW TABLES", "VALUES")
"""What a statement begins with."""

KEYWORDS: Final = tuple(
    (  # noqa: SIM905 - a word a line would be a page
        """
        ALL AND ANTI ANY AS ASC BETWEEN BY CASE CAST CROSS CURRENT DESC DISTINCT ELSE END EXCEPT
        EXCLUDE EXISTS EXPLAIN EXTRACT FALSE FILTER FIRST FOLLOWING FROM FULL GROUP HAVING ILIKE IN
        INNER INTERSECT INTERVAL IS JOIN LAST LATERAL LEFT LIKE LIMIT NATURAL NOT NULL NULLS OFFSET
        ON OR ORDER OUTER OVER PARTITION PRECEDING QUALIFY RANGE RECURSIVE RIGHT ROWS SELECT SEMI
        SIMILAR SOME THEN TO TRUE UNBOUNDED UNION UNNEST USING VALUES WHEN WHERE WINDOW WITH WITHIN
        """
    ).split()
)
"""What may stand within one."""

TABLE_FOLLOWS: Final = ("FROM", "JOIN", "DESCRIBE", "TABLE")
"""Keywords after which a table is named."""

CLAUSES: Final = ("SELECT", "FROM", "WHERE", "GROUP", "ORDER", "HAVING", "ON", "LIMIT", "QUALIFY")
"""Keywords that begin a part of a statement."""
