"""Files: the `read`, `write` and `edit` tools, the checks before a change, and access
to the disk.
"""
