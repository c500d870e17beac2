"""The model's tools: read, search, edit, run and plan.

They access files and commands through the interfaces of `environment`. If the editor
offers its unsaved buffers and terminals, they replace the disk and local processes.
"""
