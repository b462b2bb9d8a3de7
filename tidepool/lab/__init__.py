"""The laboratory: one description of a workload, run on several schedulers on the same machines, measured and compared."""
