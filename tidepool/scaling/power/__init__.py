"""Slurm's power saving as the way in: its requests, from the controller's machine to what `decide` is told."""
