"""The APIs of model servers: an adapter for each API, and the connection through the
provider's SDK.
"""
