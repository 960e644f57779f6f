"""Errors of subqueries that the engine answers in conditions only.

It turns ``IN``, ``EXISTS``, ``ANY`` and ``ALL`` of a subquery into joins where they stand in WHERE
or HAVING.  Elsewhere it fails, at different steps of planning, with its own notation for the plan.
"""

from __future__ import annotations

import re
from typing import Final

from daf_storage import errors

_UNPLANNED: Final = re.compile(
    r"does not support logical expression (?:Exists|InSubquery|SetComparison)\("
    r"|In/Exist/SetComparison subquery can only be used in"
    r"|difference in schemas: .*\b(?:ANY|ALL)\b.*\bWHEN EXISTS THEN Boolean"
    r"|No field named \".*(?:[<>=] (?:ANY|ALL)\b|\b(?:IN|EXISTS) \(<subquery>\))",
    re.DOTALL,
)


def subquery_error(text: str) -> errors.QueryError | None:
    """Return the error of a subquery that is no condition; None if the engine says another thing.

    >>> str(subquery_error("does not support logical expression Exists(...)")).partition(":")[0]
    'IN, EXISTS, ANY and ALL of a subquery are answered in WHERE and HAVING alone'
    >>> subquery_error("No field named age.") is None
    True
    """
    if _UNPLANNED.search(text) is None:
        return None
    return errors.QueryError(
        "IN, EXISTS, ANY and ALL of a subquery are answered in WHERE and HAVING alone: the engine "
        "does not compute them as values; as a column, count, as in "
        "(SELECT count(*) FROM gene WHERE gene.name = cell.marker) > 0, or compare with one "
        "value, as in age > (SELECT min(age) FROM donor)"
    )
