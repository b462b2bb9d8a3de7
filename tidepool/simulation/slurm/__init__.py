"""A Slurm in memory, with a clock that it is given."""
