"""The fake provider's process. All of it is in a module, for that is compiled once, not at each start."""

import sys

import fake_provider

if __name__ == "__main__":
    fake_provider.serve(sys.argv[1:])
