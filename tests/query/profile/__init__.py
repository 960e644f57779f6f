"""Tests of daf_query.profile."""
