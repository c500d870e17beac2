"""The face of protocol version 2, a draft: loaded where an editor asks for it. What is the same as in version 1, it
takes from there.
"""
