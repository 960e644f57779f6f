"""Tests that every tree and format passes; those of stores are `daf_storage.testing`.

A test class inherits a suite and gives it an empty tree or data set, as a fixture.  There is a
suite for each capability: what can be changed passes the ``Changing`` one, what can only be added
to the ``AppendOnly`` one.
"""

from tests.suites.append_only_suite import AppendOnlyDafSuite
from tests.suites.changing_suite import ChangingDafSuite
from tests.suites.daf_suite import DafSuite
from tests.suites.read_only_suite import ReadOnlyDafSuite
from tests.suites.tree_suite import ChangingTreeSuite, TreeSuite

__all__ = [
    "AppendOnlyDafSuite",
    "ChangingDafSuite",
    "ChangingTreeSuite",
    "DafSuite",
    "ReadOnlyDafSuite",
    "TreeSuite",
]
