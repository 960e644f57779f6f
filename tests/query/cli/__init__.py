"""Tests of daf_query.cli."""
