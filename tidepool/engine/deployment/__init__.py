"""One operation on a stack: from what a program registers to steps, and from steps to a new snapshot."""
