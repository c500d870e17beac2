"""The layers of a compacted conversation that are made without a model: excerpts and
quotations, which are copied word for word, and the inventory.
"""
