"""The `shell` tool, running commands on this machine, and checking command lines
against a recipe's rules.
"""
