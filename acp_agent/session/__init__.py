"""Sessions: one conversation each, with its log, its mailbox of prompts, its commands and its settings.

`actor -> turn -> compact, slash -> project -> state, log, notices`. A `SessionClient` shows updates and asks the user.
"""
