"""Showing an operation: event log, JSON, plain text, property diffs and the live display."""
