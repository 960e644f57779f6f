"""Tests of daf_query.table."""
