"""Generators of workloads: each kind is one module, of parameters that a person writes and a seed. Pure, but for traces, which are read."""
