"""Verbs of the laboratory: each is a module here, which `tidepool.cli.lab.verbs` knows by its name."""
