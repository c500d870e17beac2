"""An Agent Client Protocol server for editors, with recipe-driven compaction of long
sessions.
"""

__version__ = "0.2.0"
