"""Models: one client, an adapter for each API, and what is known of each model."""
