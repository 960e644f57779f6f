"""Tests of cells of SQL in notebooks."""
