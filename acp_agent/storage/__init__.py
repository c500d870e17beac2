"""Persistence of sessions: the `SessionStore` Protocol and its SQLite implementation."""
