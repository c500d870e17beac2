"""Sessions: one conversation each, with its log, its mailbox of prompts, its commands and its settings.

Knows the domain below it and a `SessionClient` that shows things and answers questions; knows nothing of the wire.
"""
