"""Providers with configuration, explicit and default, and functions of theirs."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])
Options = pulumi.ResourceOptions

from cloud import Provider

mine = Provider("mine", region="north" if step < 3 else "south", account="one" if step < 4 else "two",
                token=pulumi.Output.secret("hunter2"))  # fmt: skip
a = Server("a", size=1)
b = Server("b", peer=a.address, opts=Options(provider=mine))
late = Provider("late", region=a.address)
c = Server("c", opts=Options(provider=late))


class Group(pulumi.ComponentResource):
    def __init__(self, name: str, opts: Options):
        super().__init__("my:index:Group", name, None, opts)
        self.inner = Server(f"{name}-inner", opts=Options(parent=self))
        self.register_outputs({})


g = Group("g", Options(providers=[mine]))
found = pulumi.runtime.invoke("cloud:index:lookup", {"name": "direct"}).value
pulumi.export("found", found)
pulumi.export("found_mine", pulumi.runtime.invoke_output("cloud:index:lookup", {"name": a.address}, pulumi.InvokeOptions(provider=mine)))
pulumi.export("found_after", pulumi.runtime.invoke_output("cloud:index:lookup", {"name": "x"}, pulumi.InvokeOutputOptions(depends_on=[c])))
if step == 2:
    pulumi.runtime.invoke("cloud:index:lookup", {"fail": "so it is"})
if step == 5:
    pulumi.runtime.invoke("cloud:index:lookup", {"bad": 1})
if step == 6:
    moon = Provider("moon", region="moon", opts=Options(depends_on=[a, b, c, g.inner]))
    d = Server("d", opts=Options(provider=moon))
