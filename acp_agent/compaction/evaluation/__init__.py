"""Measures what compactions keep: cuts recorded sessions, compacts them, and searches
the result for facts that the rest of the session needs.
"""
