"""Tests of daf_storage.attached."""
