"""`acp-agent doctor`: checks of the installation and the configuration, with advice."""
