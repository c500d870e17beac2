"""Layers that code copies word for word from the conversation: excerpts, quotations,
and the inventory.
"""
