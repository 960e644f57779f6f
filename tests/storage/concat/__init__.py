"""Tests of daf_storage.concat."""
