"""The models of a session: resolves the model in use, learns its context window, and
builds its requests.
"""
