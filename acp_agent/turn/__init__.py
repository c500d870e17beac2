"""One turn: ask the model, run the tools that it calls, ask again, until it has answered.

Knows models, tools and messages; knows nothing of sessions, the log's store or the editor. What it needs of them it
reaches through the `TurnHost` Protocol.
"""
