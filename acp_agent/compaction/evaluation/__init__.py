"""How much of what a session still needs a compaction keeps: measured on recorded sessions, without a model.

A recording is read (`importers`), cut at chosen points, compacted there by each method, and what is left is searched
for the facts that the rest of the recording really refers to. Pure, as all of `compaction`: files are read by the
importers, and nothing is written.
"""
