"""MCP servers of a session: connecting to them, their tools as tools of the agent, and what they ask the user.

Everything but `client`, `transports`, `stdio` and `watch` is free of the SDK, which takes most of a second to load.
"""
