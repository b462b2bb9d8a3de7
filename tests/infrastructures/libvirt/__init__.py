"""Hosts that run libvirt, as they are asked and read. Nothing here needs one."""
