"""Tests of daf_storage.groups."""
