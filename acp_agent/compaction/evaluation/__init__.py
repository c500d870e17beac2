"""Measures what compactions keep: splits recorded sessions, compacts the first part,
and searches the result for facts that the rest of the session needs.
"""
