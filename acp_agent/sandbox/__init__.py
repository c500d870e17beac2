"""The sandbox of commands: what they may read, write and reach, by the means of the operating system."""
