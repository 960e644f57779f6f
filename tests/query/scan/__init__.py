"""Tests of daf_query.scan."""
