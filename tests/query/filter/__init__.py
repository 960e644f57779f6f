"""Tests of daf_query.filter."""
