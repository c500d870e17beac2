"""What the model can do: read, search, edit, run, plan.

Tools reach files and commands through the seams of `environment`, so that an editor's unsaved buffers and terminals
stand in for the disk and local processes where the editor offers them. Knows messages and views; nothing of sessions,
permissions or the wire.
"""
