"""The APIs that model servers speak: an adapter for each, and the connection through
the provider's SDK.
"""
