"""Models: one Protocol, one adapter per provider, and what is known of each model.

Knows messages and settings; knows nothing of sessions, tools' workings or the editor.
"""
