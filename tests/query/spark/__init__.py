"""Tests of daf_query.spark."""
