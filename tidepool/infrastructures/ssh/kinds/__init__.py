"""Kinds of resources of ssh: the provider's side of `tidepool.infrastructures.ssh.resources`."""
