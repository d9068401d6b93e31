"""One run: its config, what carries it out, what it starts from and what it records."""
