"""Programs that machines run. They are brought there as text, and imported by tests alone."""
