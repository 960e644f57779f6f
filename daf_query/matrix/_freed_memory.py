"""Keep the memory of a block that is done for the next one."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np

_KEPT_BYTES: Final = 24 << 20


@cache
def keep_freed_memory() -> None:
    """Have the allocator keep freed memory, up to twice 24 MiB; called once, it holds for good.

    glibc returns freed memory at once until larger arrays than those were freed.  Every block would
    have its pages mapped and cleared again, which takes longer than what is computed in them.
    """
    np.empty(_KEPT_BYTES, np.uint8)
