"""Recipes: Markdown files with YAML front matter, each a slash command in the editor and a name for `run -r`.

The names of handlers, tools, strategies and providers that a file may use are given as `Known`. Importing this package
loads neither yaml, pydantic nor jinja2.
"""
