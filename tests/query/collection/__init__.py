"""Tests of matrices of several data sets as one."""
