"""What a person types in a terminal. Each module is one sub-command: its arguments, and `run`."""
