"""A session's compactions: when one is due, how it is done, and what the user sees of it."""
