"""Suites that every store, every tree and every format inherits."""
