"""Tests of daf_storage.anndata."""
