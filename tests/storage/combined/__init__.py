"""Tests of daf_storage.combined."""
