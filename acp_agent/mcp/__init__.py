"""The MCP servers of a session: their connections, the tools they give the agent, and
the questions they ask the user.

Only `client`, `transports` and `stdio` import the SDK, which takes most of a second to
load.
"""
