"""The ACP face of the agent, version 1: requests in, responses and updates out.

The only room that sees both the wire's types and the domain's.
"""
