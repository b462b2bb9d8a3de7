"""From Slurm, the infrastructure, the stack and its file to a `ClusterState`; doubtful answers are asked again."""
