"""HPC clusters that rise and fall with their queue: Slurm, Kubernetes and Pulumi in one graph."""
