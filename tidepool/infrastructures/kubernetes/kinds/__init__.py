"""Kinds of resources of kubernetes: the provider's side of `tidepool.infrastructures.kubernetes.resources`."""
