"""The models of a session: which one answers, what is known of its window, and the
requests that are sent to it.
"""
