"""Tests of daf_query.moments."""
