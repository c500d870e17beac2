"""`acp-agent setup`: the agent in an editor's settings."""
