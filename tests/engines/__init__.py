"""Tests of doors to other engines, which start processes and servers; ``make test-engines``."""
