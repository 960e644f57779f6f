"""The tests: one file per module, a sentence per test."""
