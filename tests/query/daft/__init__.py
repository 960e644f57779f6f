"""Tests of daf_query.daft."""
