"""Tests of daf_query.dbapi."""
