"""Signs in a query that it may have to be planned twice.

Whether it has to be is in the optimised plan alone, and to look there takes time.
"""

from __future__ import annotations

import re
from typing import Final

_MAY_BE_UNCONVERTED: Final = re.compile(r"null|case|cast|::|x'")
"""What is in a query that may have a constant that is NULL, or bytes."""
_MAY_CONTRADICT: Final = re.compile(r"(?:=|\bin\b).*\b(?:and|where|on)\b.*(?:=|\bin\b)", re.DOTALL)
"""What is in a query that may have conditions that the optimiser sees to exclude each other."""


def may_be_unconverted(lowered: str) -> bool:
    """Return whether filters of a query, in small letters, may have what tables cannot be given."""
    patterns = (_MAY_BE_UNCONVERTED, _MAY_CONTRADICT)
    return any(each.search(lowered) is not None for each in patterns)
