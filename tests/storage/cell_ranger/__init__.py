"""Tests of folders of Matrix Market files."""
