"""Masking of secrets in everything that is logged, recorded or shown."""
