"""The data sets that a chain or a view is made of."""

from __future__ import annotations

from collections.abc import Iterator

from daf_storage.combined._chains import ChainReader, ChainWriter
from daf_storage.combined._views import ViewReader
from daf_storage.data import DafReader


def stored_members(daf: DafReader) -> Iterator[DafReader]:
    """Yield the data sets that a chain or a view consists of; one that is stored is its own."""
    if isinstance(daf, ChainReader | ChainWriter):
        for member in daf.members:
            yield from stored_members(member)
    elif isinstance(daf, ViewReader):
        yield from stored_members(daf.base)
    else:
        yield daf
