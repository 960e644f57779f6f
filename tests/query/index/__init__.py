"""Tests of daf_query.index."""
