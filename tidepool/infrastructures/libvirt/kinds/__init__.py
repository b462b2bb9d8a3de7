"""Kinds of resources of libvirt: the provider's side of `tidepool.infrastructures.libvirt.resources`."""
