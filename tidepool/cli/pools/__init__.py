"""What the command tells of converged pools, and how it moves their machines."""
