"""Decides when to compact a session, carries out the compaction, and reports it to the
user.
"""
