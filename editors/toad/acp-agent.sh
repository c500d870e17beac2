#!/bin/sh
# Toad with acp-agent, in the current directory.
exec toad acp "/path/to/acp-agent" --title acp-agent --project-dir .
