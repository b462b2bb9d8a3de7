"""Schedulers that a laboratory compares: each is one folder, and keeps one contract."""
