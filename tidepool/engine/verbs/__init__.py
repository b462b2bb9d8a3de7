"""The verbs of the command line. Each is a frozen request with a ``run`` method, beside those of its kind."""
