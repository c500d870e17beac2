"""Runs turns: resolve the prompt, call the model, run its tool calls, and repeat until
it has answered.
"""
