"""MCP servers of a session: connections, their tools for the agent, and their questions
to the user.

Only `client`, `transports` and `stdio` import the SDK, which takes most of a second to
load.
"""
