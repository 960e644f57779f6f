"""Tests of daf_query.matrix."""
