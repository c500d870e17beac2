"""A session's view of its project and configuration: trust, hooks, recipes, MCP
servers, models, options.
"""
