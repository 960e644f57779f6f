"""Tests of Dask collections; with the synchronous scheduler, in this process."""
