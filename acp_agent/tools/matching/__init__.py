"""Finds the text that a model means in a file, despite differences in control
characters, line ends and lookalike characters.
"""
