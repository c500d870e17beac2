"""The ACP server: the code that all protocol versions share, and a sub-package for each
version.

It translates between the wire's types and the domain's.
"""
