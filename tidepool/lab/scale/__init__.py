"""Schedulers with more nodes than there are machines: daemons and queues are real, nodes are played on one kernel.

Slurm's nodes are slurmd processes, many on one host; those of Kubernetes are objects, which kwok answers for.
`slurm` and `kubernetes` start them, `measure` does the same with both, `summary` makes figures of the single values.
"""
