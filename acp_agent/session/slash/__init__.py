"""The slash commands that are no recipes, and the list of commands that an editor
offers.
"""
