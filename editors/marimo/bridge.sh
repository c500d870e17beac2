#!/bin/sh
# A WebSocket on the port on which marimo looks for one of the agents that it knows.
exec npx --yes stdio-to-ws "/path/to/acp-agent" --port 3017
