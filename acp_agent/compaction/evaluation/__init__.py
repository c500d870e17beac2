"""Measurement of what compactions keep: recorded sessions are cut, compacted, and searched for what the rest needs."""
