"""Tests of daf_storage.stores."""
