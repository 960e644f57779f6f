"""Tests of daf_query.fragments."""
