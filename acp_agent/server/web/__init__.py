"""The transport for clients elsewhere: streamable HTTP and WebSocket, at one endpoint. Needs the extra `serve`."""
