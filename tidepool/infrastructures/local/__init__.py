"""This machine: networks and machines made of the kernel's namespaces."""
