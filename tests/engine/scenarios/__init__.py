"""Runs a program step by step with a command line and writes down what could be seen of it.

- ``format``: a scenario and its steps, read from YAML beside the program.
- ``sandbox``, ``actors``: the folders of a run, who runs there.
- ``play``: the run itself, one observation a step.
- ``observe``, ``order``, ``normalise``: from raw logs to what two runs must agree on.
- ``compare``: how two observations differ.
"""
