"""What was said and done in a session: messages, the events of its log, and the context folded from them.

The log is the only truth; the context is what the model sees and a pure fold over the log. This room imports nothing
of ours but `errors`, and knows of no provider, no wire and no disk.
"""
