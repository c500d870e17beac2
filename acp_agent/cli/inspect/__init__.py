"""`acp-agent inspect`: a session as one HTML page, written to a file or shown while it
goes on.
"""
