"""From a `World` and a `Memory` to a `Decision`. Pure: nothing in here does I/O, and nothing fails."""
