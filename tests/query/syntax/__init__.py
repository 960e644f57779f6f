"""Tests of daf_query.syntax."""
