"""A whole cluster in memory, with a clock of its own that jumps to the next thing that happens.

The scaler that runs in it is the real one; what it is handed are a Slurm, machines, a stack and a journal that keep
the promises of the real ones. `replay` runs in it, and tests, which break it in every way that is known.
"""
