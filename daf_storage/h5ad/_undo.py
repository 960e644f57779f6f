"""Undo a failed import into a data set that the caller has opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from daf_storage.data import DafWriter, kept


@contextmanager
def undone_on_error(daf: DafWriter) -> Iterator[None]:
    """Leave a data set as it was if the block, which only adds to it, raises.

    An archive drops what was not committed; of everything else, what is new is deleted.
    """
    axes, scalars, parts = daf.axes_set(), daf.scalars_set(), set(kept.arrays(daf.tree))
    try:
        with daf.batch():
            yield
    except BaseException:
        if not daf.is_append_only:
            for path in set(kept.arrays(daf.tree)) - parts:
                kept.delete_part(daf.writable_tree, path)
            for axis in daf.axes_set() - axes:
                daf.delete_axis(axis)
            for name in daf.scalars_set() - scalars:
                daf.delete_scalar(name)
        raise
