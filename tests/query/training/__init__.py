"""Tests of daf_query.training."""
