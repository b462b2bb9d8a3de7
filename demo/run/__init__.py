"""The demo of runs: a cluster for one workload, from nothing to results, and nothing again."""
