"""Tests of daf_storage.anndata_rules."""
