"""The ACP face of the agent: what is the same in every version of the protocol, and a sub-room for each of them.

The only room that sees both the wire's types and the domain's.
"""
