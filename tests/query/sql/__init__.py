"""Tests of daf_query.sql."""
