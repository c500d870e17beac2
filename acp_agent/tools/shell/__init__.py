"""The shell: its tool, how a command runs on this machine, and which command lines a recipe allows."""
