"""Tests of daf_storage.trees."""
