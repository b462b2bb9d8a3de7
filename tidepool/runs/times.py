"""Times as people write them for Slurm."""

from __future__ import annotations


def limit_s(time: str) -> int | None:
    """Return ``30`` (minutes), ``1:30`` (minutes and seconds), ``1:00:00``, ``2-12`` in seconds; None where it has no end.

    ``time`` is a `SlurmTime`, read as sbatch(1) reads --time.
    """
    if time.upper() in ("UNLIMITED", "INFINITE"):
        return None
    days, dash, clock = time.rpartition("-")
    parts = [int(part) for part in clock.split(":")]
    if dash:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
        return ((int(days) * 24 + hours) * 60 + minutes) * 60 + seconds
    if len(parts) == 1:
        return parts[0] * 60
    hours, minutes, seconds = (0, *parts)[-3:]
    return (hours * 60 + minutes) * 60 + seconds
