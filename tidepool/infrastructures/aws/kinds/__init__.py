"""Kinds of resources of aws: the provider's side of `tidepool.infrastructures.aws.resources`."""
