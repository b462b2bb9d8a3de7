"""Kinds of resources of local: the provider's side of `tidepool.infrastructures.local.resources`."""
