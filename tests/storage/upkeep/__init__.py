"""Tests of daf_storage.upkeep."""
