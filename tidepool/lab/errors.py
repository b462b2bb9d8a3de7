"""Errors of a laboratory, for people: what, where, the remedy."""

from __future__ import annotations


class LabError(Exception):
    """A person's mistake, or a lack of this machine: a sentence with its remedy."""


class SchedulerFailed(LabError):
    """A scheduler did not do what it was asked; the trial is repeated, and after a few times given up."""
