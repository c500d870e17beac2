"""Where sessions are kept: the `SessionStore` Protocol and its SQLite form. Knows events, and nothing of turns."""
