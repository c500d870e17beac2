"""JSON-RPC 2.0 over newline-delimited streams, independent of the Agent Client
Protocol.

Nothing is re-exported here: `descriptors` must stay importable without anyio and
jsonrpcserver.
"""
