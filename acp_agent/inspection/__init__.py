"""What happened in a session, as somebody looks at it afterwards: the log as a story, with sizes and costs.

Pure: events in, frozen values out. Knows no page, no terminal and no store.
"""
