"""Tests of daf_query.session."""
