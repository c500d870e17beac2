"""The recipes that a session can run, and one run of a recipe."""
