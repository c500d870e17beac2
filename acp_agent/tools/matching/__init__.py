"""Matches text from a model to existing text despite control characters, line ends and
lookalike characters.
"""
