"""The resource of instructions to hosts that boot."""

from __future__ import annotations

from pulumi import Input

from tidepool.resources.model import Field, Model, Resource, condition, given


class MetalBootModel(Model):
    """Properties of a `MetalBoot`."""

    stack: Field[str] = given(replaces=True)
    boot: Field[str] = given(replaces=True)
    content: Field[str, Input[str]] = given(secret=True)
    #: Whether this machine has it.
    state: Field[str] = condition("kept")


class MetalBoot(Resource, MetalBootModel, token="tidepool:metal:Boot"):
    """The instructions to machines that boot, kept on this machine for its boot service. Changing it touches none that runs."""
