"""The face of protocol version 1: its requests in, its responses and updates out."""
