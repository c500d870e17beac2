"""JSON Schemas of tools' arguments: from what servers send to what every provider
takes.
"""
