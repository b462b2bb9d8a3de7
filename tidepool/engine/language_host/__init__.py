"""A host of Python programs and plugins for the Pulumi CLI, where it is built by `make pulumi`.

The CLI runs no program itself: it starts `pulumi-language-python`, asks it over gRPC to run one, and is the engine that
the program talks to. Pulumi's own host is a Go module that no registry serves; what it runs programs with, the script
`pulumi-language-python-exec`, comes with the SDK's module and is run here unchanged.
"""
