"""Files: `read`, `write` and `edit`, what a change needs, and the disk."""
