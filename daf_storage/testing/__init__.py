"""Tests that every store, tree and format passes, for those who write another one.

Needs pytest, which the extra ``testing`` installs.  A test class inherits a suite and gives it an
empty store, tree or data set, as a fixture.  There is a suite for each capability: what can be
changed passes the ``Changing`` one, what can only be added to the ``AppendOnly`` one.

>>> import pytest
>>> from daf_storage import DafWriter, MemoryDaf
>>> from daf_storage.testing import ChangingDafSuite
>>> class TestMine(ChangingDafSuite):
...     @pytest.fixture
...     def daf(self) -> DafWriter:
...         return MemoryDaf()
"""

from daf_storage.testing.append_only_suite import AppendOnlyDafSuite
from daf_storage.testing.changing_suite import ChangingDafSuite
from daf_storage.testing.daf_suite import DafSuite
from daf_storage.testing.examples import CELLS, GENES, UMIS, contents, dense, fill, fill_served
from daf_storage.testing.read_only_suite import ReadOnlyDafSuite
from daf_storage.testing.store_suite import AppendOnlyStoreSuite, ChangingStoreSuite, StoreSuite
from daf_storage.testing.tree_suite import ChangingTreeSuite, TreeSuite

__all__ = [
    "CELLS",
    "GENES",
    "UMIS",
    "AppendOnlyDafSuite",
    "AppendOnlyStoreSuite",
    "ChangingDafSuite",
    "ChangingStoreSuite",
    "ChangingTreeSuite",
    "DafSuite",
    "ReadOnlyDafSuite",
    "StoreSuite",
    "TreeSuite",
    "contents",
    "dense",
    "fill",
    "fill_served",
]
