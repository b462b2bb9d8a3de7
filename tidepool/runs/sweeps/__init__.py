"""Sweeps: many runs of one workload, on clusters that differ in what is varied; and what came of them, side by side."""
