"""Tests of daf_storage.files_daf."""
