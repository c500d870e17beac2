"""Masking of secrets in everything that is written down or shown. Imports nothing of the project but `frozen`."""
