"""The command line. Each module or package is one sub-command: its arguments, and
`run`.
"""
