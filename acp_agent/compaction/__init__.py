"""Making a long context short: how full it is, where it may be cut, and the summary that takes a part's place.

Pure: state in, plan or result out. It appends nothing, shows nothing and calls no model by itself; the session that
owns the log does, and hands in the model call.
"""
