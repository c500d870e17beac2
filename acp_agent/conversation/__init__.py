"""The contents of a session: messages, the events of its log, and the context folded
from them.

The log is the only source of truth. The context is what the model sees, computed from
the log by a pure fold. The package contains plain values and does no I/O.
"""
