"""Tests of what an operation shows and writes."""
