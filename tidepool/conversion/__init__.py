"""Conversions: a machine of a converged pool leaves Slurm for Kubernetes, or the other way round. See docs/conversions.md."""
