"""Decides when to compact a session, runs the compaction, and reports it to the user."""
