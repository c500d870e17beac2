"""The ACP server: what all versions of the protocol share, and a sub-package for each
version.

It translates between the wire's types and the domain's.
"""
