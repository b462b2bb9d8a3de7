"""Places of results, for tests of what is done with them."""

from tests.runs.results.places import objectstore, reopen, store

__all__ = ["objectstore", "reopen", "store"]
