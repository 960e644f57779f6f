"""Tests of the mapping between AnnData and Daf, in place."""
