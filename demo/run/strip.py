#!/usr/bin/env python3
"""A strip of the Mandelbrot set: how soon each point leaves, as bytes in the file strip-N."""

import os
import socket
from pathlib import Path

WIDTH, HEIGHT, STRIPS, MOST = 480, 320, 8, 120


def steps(point: complex) -> int:
    """Count the steps until the point leaves; at most so many."""
    value = 0j
    for count in range(MOST):
        value = value * value + point
        if abs(value) > 2:
            return count
    return MOST


def main() -> None:
    """Compute the strip that the task's number names."""
    number, rows = int(os.environ["SLURM_ARRAY_TASK_ID"]), HEIGHT // STRIPS
    found = bytearray()
    for row in range(number * rows, (number + 1) * rows):
        for column in range(WIDTH):
            point = complex(-2.2 + 3.2 * column / WIDTH, -1.1 + 2.2 * row / HEIGHT)
            found.append(255 * (MOST - steps(point)) // MOST)
    Path(f"strip-{number}").write_bytes(found)
    print(f"strip {number}: {len(found)} points on {socket.gethostname()}")  # noqa: T201 - a job's output


if __name__ == "__main__":
    main()
