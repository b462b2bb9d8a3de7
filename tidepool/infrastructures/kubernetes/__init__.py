"""Fleets on Kubernetes, as pods or as machines of Cluster API: what may be asked for, the objects, and what is found.

Nothing here makes anything: objects are made by the resources of `tidepool.infrastructures.kubernetes.graph`. An API
server is asked by `machines` and `looking` alone.
"""
