"""SQL over Daf data sets."""
