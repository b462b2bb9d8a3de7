"""Hostings: machines that a laboratory measures on, as this host has them: of this kernel, or VMs of libvirt."""
