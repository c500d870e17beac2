"""Measures the agent from outside: real processes, the real wire, a model server on the
loopback interface.
"""
