"""Session persistence: `SessionStore` and its SQLite database."""
