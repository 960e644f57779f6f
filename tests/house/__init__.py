"""Sizes of the packages, and lengths of the walks through them; ``make house`` prints both."""
