"""The tools of the model: read, search, edit, run, plan.

They access files and commands through the interfaces of `environment`, so that an editor's unsaved buffers and
terminals take the place of the disk and local processes where the editor offers them.
"""
