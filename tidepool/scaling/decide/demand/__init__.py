"""The jobs that wait in Slurm's queue, in terms of nodes: which jobs ask for the same, and on which fleets that fits."""
