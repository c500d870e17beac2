"""What looks like a secret, and everything written down or shown without it. Imports nothing of the project."""
