"""The contents of a session: messages, the events of its log, and the context folded from them.

The log is the only source of truth; the context is what the model sees, a pure fold over the log. Pure values: no I/O.
"""
