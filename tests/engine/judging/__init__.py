"""Runs the Python programs of Pulumi's own integration tests, and says how the embedded engine does.

The programs are Pulumi's and stay in a checkout of theirs; here is only what is done with each.

- ``case``: a program and its steps, read from ``programs.yaml``.
- ``copy``: the folders of a run: the program and its plugins, copied from the checkout.
- ``play``: the run itself, one observation a step, and what in it is not as it should be.
- ``verdict``: what a run comes to, and the table of all of them.
"""
