"""Tests of daf_query, a folder for each of its packages."""
