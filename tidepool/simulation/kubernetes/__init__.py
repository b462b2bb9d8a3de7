"""A Kubernetes in memory."""
