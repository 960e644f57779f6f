"""Tests of the completion of SQL."""
