"""Packing: nodes that are alike are one bin with a count, jobs that ask for the same one group with a count."""
