"""What may be asked or told at the events of a session's life. A hook returns actions and performs none."""
