"""Rename with the two guarantees that ``os.rename`` lacks: exchange, and no silent merge.

``os.rename`` cannot put a directory over a directory that is not empty.  Linux and macOS can
exchange two names in one atomic step; where the file system cannot, the caller gets False and
takes two steps.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

_AT_FDCWD = -100
_EXCHANGE = 2
_NO_REPLACE = 4 if sys.platform == "darwin" else 1
_NOT_SUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}


@cache
def _exchange_function() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    name = "renamex_np" if sys.platform == "darwin" else "renameat2"
    return getattr(libc, name, None)


def exchange(first: Path, second: Path) -> bool:
    """Swap the two names in one atomic step; return False where that is not possible."""
    return _renamed(first, second, _EXCHANGE)


def rename_new(source: Path, target: Path) -> None:
    """Rename a file or a directory, and raise ``FileExistsError`` if there is something already.

    Also where the file system has no such call, nothing is replaced: a link to a file is made
    only under a free name, and a directory takes the place of an empty one that was just created.
    """
    if _renamed(source, target, _NO_REPLACE):
        return
    if source.is_dir():
        target.mkdir()
        os.rename(source, target)
        return
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:  # without hard links either
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        os.rename(source, target)
    else:
        source.unlink()


def _renamed(first: Path, second: Path, flag: int) -> bool:
    function = _exchange_function()
    if function is None:
        return False
    a, b = os.fsencode(first), os.fsencode(second)
    if sys.platform == "darwin":
        failed = function(a, b, flag)
    else:
        failed = function(_AT_FDCWD, a, _AT_FDCWD, b, flag)
    if not failed:
        return True
    code = ctypes.get_errno()
    if code in _NOT_SUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(second))
