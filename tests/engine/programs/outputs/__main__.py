"""Outputs in all their forms, known and unknown."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])
Options = pulumi.ResourceOptions

a = Server("a", size=step)
b = Server("b", zone=a.revision.apply(str))
both = pulumi.Output.all(a.address, b.address).apply(lambda pair: "+".join(pair))


async def awaited(value: pulumi.Output[str]) -> str | None:
    return f"awaited {await value.future()}"


if a.address is not None and step > 1:
    pulumi.export("known", a.address.apply(lambda v: v.upper()))
pulumi.export("both", both)
pulumi.export("awaited", pulumi.Output.from_input(awaited(a.address)))
pulumi.export("json", pulumi.Output.json_dumps({"a": a.address, "n": [1, 2.5, None, True]}))
pulumi.export("format", pulumi.Output.format("{0} and {x}", a.serial, x=b.id))
pulumi.export("numbers", [0, -1, 1.5, 1e21, 123456789012])
pulumi.export("text", "line\nline\ttab \u00fc \u2028 <&> \U0001f600")
pulumi.export("nothing", None)
pulumi.export("empty", {"list": [], "map": {}, "text": ""})
pulumi.export("deep", {"a": {"b": [{"c": a.serial}]}})
pulumi.export("resource", b)
pulumi.export("urn", b.urn)
pulumi.export("id", b.id)
pulumi.export("project", [pulumi.get_project(), pulumi.get_stack(), pulumi.get_organization(), pulumi.runtime.is_dry_run()])
if step == 3:
    pulumi.export("more", 1)
