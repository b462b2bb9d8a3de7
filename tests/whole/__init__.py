"""A whole cluster, as its users have it: the command, the engine, the provider, real machines, real Slurm."""
