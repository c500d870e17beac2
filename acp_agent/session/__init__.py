"""Sessions. A session is one conversation with its log, prompt queue, commands and
settings.

`actor -> turn -> compact, slash -> project -> state, log, notices`. A `SessionClient`
shows updates and asks the user.
"""
