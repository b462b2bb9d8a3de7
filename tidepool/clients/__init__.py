"""Clients of what runs elsewhere: Slurm, Kubernetes, and the transports that commands go by."""
