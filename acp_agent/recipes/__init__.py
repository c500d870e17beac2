"""Recipes: Markdown files with YAML front matter. Each is a slash command in the editor
and a name for `run -r`.

`Known` holds the names of handlers, tools, strategies and providers that a file may
use. Importing this package does not load yaml, pydantic or jinja2.
"""
