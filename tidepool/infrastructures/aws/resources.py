"""Resources of AWS that are made by ourselves; all else there is of the package pulumi-aws."""

from __future__ import annotations

from tidepool.resources.model import Field, Model, Resource, condition, given


class AwsForwardingModel(Model):
    """Properties of an `AwsForwarding`."""

    region: Field[str] = given(replaces=True)
    interface: Field[str] = given(replaces=True)
    #: What EC2 does with what comes.
    state: Field[str] = condition("forwards")


class AwsForwarding(Resource, AwsForwardingModel, token="tidepool:aws:Forwarding"):
    """A network interface that takes, and sends, what is not to or from its own address: EC2 does not check it.

    ``interface`` is its id. Of a machine with one interface its instance can say so; of one with several, nobody else can.
    """
