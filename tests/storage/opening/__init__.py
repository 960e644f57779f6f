"""Tests of daf_storage.opening."""
