"""State: the checkpoint format, secrets, and the folder of the file backend with locks and history."""
