"""`make demo`: a cluster on this machine, a mixed workload, and what came of it."""
