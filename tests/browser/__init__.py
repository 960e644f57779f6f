"""The page of ``daf explore`` in Chromium."""
