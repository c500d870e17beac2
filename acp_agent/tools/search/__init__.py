"""The search tools `list`, `glob` and `grep`, which skip files that git ignores."""
