"""Journals of work that one process drives at a time, and another goes on with where that was killed."""
