"""Looks and decides once, for a person who asks. It acts on nothing, and writes nothing down."""

from __future__ import annotations

from tidepool.cli.scaler.opening import Source
from tidepool.cli.scaler.record import Record
from tidepool.cli.stack import Stack
from tidepool.scaling.ports import Stack as ScaledStack


def with_a_decision(stack: Stack, source: Source) -> Record:
    """What the journal says where a daemon runs; else the same with what is seen and decided now."""
    return source.read()


def decided_now(stack: Stack, source: Source) -> Record:
    raise NotImplementedError


def opened_stack(stack: Stack) -> ScaledStack:
    raise NotImplementedError
