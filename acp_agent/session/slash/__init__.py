"""The slash commands that are not recipes, and the list of commands that an editor
offers.
"""
