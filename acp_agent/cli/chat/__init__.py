"""`acp-agent chat`: a conversation in the terminal, over the same sessions as in an
editor.
"""
