"""Tests of daf_query.flight_sql."""
