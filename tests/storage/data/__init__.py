"""Tests of daf_storage.data."""
