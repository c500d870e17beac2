"""Matching what a model writes with what is there: control characters, line ends, characters that look alike."""
