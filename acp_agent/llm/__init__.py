"""Models: one client, an adapter for each API, and the properties of each model."""
