"""Tests of daf_storage.h5ad."""
