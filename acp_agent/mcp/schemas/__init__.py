"""Converts the JSON Schemas of tool arguments from the forms that servers send to a
form that every provider accepts.
"""
