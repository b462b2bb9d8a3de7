"""Components that a plugin makes, with methods."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])
Options = pulumi.ResourceOptions


class Cluster(pulumi.ComponentResource):
    address: pulumi.Output[str]
    size: pulumi.Output[int]
    secret: pulumi.Output[str]

    def __init__(self, name: str, opts: Options | None = None, **inputs: object):
        super().__init__("parts:index:Cluster", name, {"address": None, "secret": None, **inputs}, opts, remote=True)

    def call(self, method: str, greeting: pulumi.Input[str]) -> pulumi.Output:
        return pulumi.runtime.call(f"parts:index:Cluster/{method}", {"__self__": self, "greeting": greeting}, res=self)


before = Server("before", size=step)
cluster = Cluster("cluster", size=before.revision, secret=pulumi.Output.secret("hunter2"))
after = Server("after", peer=cluster.address, opts=Options(depends_on=[cluster]))
small = Cluster("small", size=1, opts=Options(protect=step == 3, aliases=[pulumi.Alias(name="little")]))
pulumi.export("address", cluster.address)
pulumi.export("secret", cluster.secret)
greeting = cluster.call("greet", before.address).apply(lambda r: r["text"])
pulumi.export("greeting", greeting)
if step == 4:
    # After the other call: the CLI cuts off what is under way when this one fails, and sometimes says so.
    cluster.call("refuse", pulumi.Output.concat(after.address, small.address, greeting))
if step == 5:
    bad = Cluster("bad", Options(depends_on=[after, small]), size=1, broken=True)
