"""From Slurm, the infrastructure, the stack and its file to a `World`; doubtful answers are asked again."""
