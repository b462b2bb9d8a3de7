"""The vocabulary of clusters: what a person asks for, and how Slurm says it. Pure: nothing here does I/O."""
