"""Tests of daf_query.slice."""
