"""What a compaction copies from the conversation by code, word for word: lines, quotations, files and commands."""
