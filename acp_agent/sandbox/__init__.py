"""The sandbox for commands: the operating system limits what they can read, write and
connect to.
"""
