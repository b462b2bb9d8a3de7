"""Hosts that run Nomad: what may be asked of them, the jobs that a cluster is there, and how a host becomes a machine.

Jobs are plain functions over frozen values. Nomad is asked, and told, by `tidepool.infrastructures.nomad.api` and what is above it alone.
"""
