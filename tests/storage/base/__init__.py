"""Tests of daf_storage.base."""
