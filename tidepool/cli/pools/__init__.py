"""Converged pools on the command line: their views, and the conversion of their machines."""
