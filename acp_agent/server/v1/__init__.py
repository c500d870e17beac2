"""Protocol version 1: its methods, client and updates."""
