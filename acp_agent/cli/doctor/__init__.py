"""`acp-agent doctor`: checks with advice, and the report of a fault."""
