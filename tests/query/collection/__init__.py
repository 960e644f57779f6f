"""Tests of matrices of a collection."""
