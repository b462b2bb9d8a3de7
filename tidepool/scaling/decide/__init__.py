"""From a `ClusterState` and a `Memory` to a `Decision`. Pure: nothing in here does I/O, and nothing fails."""
