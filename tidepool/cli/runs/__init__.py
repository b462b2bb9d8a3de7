"""`run` and `reap`: clusters that are made for a workload, and end."""
