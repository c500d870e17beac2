"""`acp-agent demo`: a scratch project, the real agent as a subprocess, and this terminal in the editor's place."""
