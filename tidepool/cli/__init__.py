"""The command `tidepool`: a thin front over the engine, this machine and Slurm. See ``docs/command.md``."""
