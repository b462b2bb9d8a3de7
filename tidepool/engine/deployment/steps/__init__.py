"""The steps of an operation, one kind a file."""
