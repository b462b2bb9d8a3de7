"""The scaling daemon: observe what waits and what is there, decide, act. Only `decide` knows why.

See ``docs/scaling.md``. What is seen is a `ClusterState`, what is remembered between two looks a `Memory`, and `decide` makes
of both a `Decision`, without any I/O. Edges (`observe`, `act`, `journal`) are handed to the daemon.
"""
