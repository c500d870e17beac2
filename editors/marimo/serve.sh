#!/bin/sh
# acp-agent on the port on which marimo looks for one of the agents that it knows, for marimo's page alone.
exec "/path/to/acp-agent" serve --websocket 127.0.0.1:3017 --origin http://localhost:2718
