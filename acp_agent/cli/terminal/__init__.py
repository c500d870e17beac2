"""Shared by the sub-commands: running one as a process, prompting at a terminal, and
printing a session.
"""
