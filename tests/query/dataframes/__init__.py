"""Tests of daf_query.dataframes."""
