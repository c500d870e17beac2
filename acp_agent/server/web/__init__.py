"""Serves clients that connect over WebSocket. Needs the extra `serve`."""
