"""Kinds of resources of nomad: the provider's side of `tidepool.infrastructures.nomad.resources`."""
