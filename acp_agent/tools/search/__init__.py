"""Searching: `list`, `glob` and `grep`, over trees without what git ignores."""
