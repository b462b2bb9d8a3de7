"""The same resources under new names, types and parents."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])

class Web(pulumi.ComponentResource):
    def __init__(self, name: str, size: int, opts: pulumi.ResourceOptions | None = None, type: str = "my:index:Web"):
        super().__init__(type, name, {"size": size}, opts)
        mine = pulumi.ResourceOptions(parent=self)
        self.front = Server(f"{name}-front", size=size, opts=mine)
        self.back = Server(f"{name}-back", peer=self.front.address, opts=mine)
        self.register_outputs({"url": self.front.address, "size": size})


Options, Alias = pulumi.ResourceOptions, pulumi.Alias
if step == 1:
    a = Server("a")
    w = Web("w", 1)
    b = Server("b", peer=a.address)
    c = Server("c", opts=Options(parent=w))
elif step == 2:  # new names
    a = Server("a2", opts=Options(aliases=[Alias(name="a")]))
    w = Web("w2", 1, Options(aliases=[Alias(name="w")]))
    b = Server("b", peer=a.address)
    c = Server("c", opts=Options(parent=w))
elif step == 3:  # another type, another parent; the children follow
    w = Web("w2", 1, Options(aliases=[Alias(type_="my:index:Web")]), type="my:index:Web2")
    a = Server("a2", opts=Options(parent=w, aliases=[Alias(parent=pulumi.ROOT_STACK_RESOURCE)]))
    b = Server("b", peer=a.address)
    c = Server("c", opts=Options(aliases=[Alias(parent=w)]))
elif step == 4:  # no alias: another resource
    w = Web("w3", 1, type="my:index:Web2")
    a = Server("a2", opts=Options(aliases=["urn:pulumi:dev::aliases::my:index:Web2$cloud:index:Server::a2"]))
    b = Server("b", peer=a.address, size=3)
    c = Server("c3", opts=Options(aliases=["urn:pulumi:dev::aliases::cloud:index:Server::c"]))
elif step == 5:  # two claim the same
    a = Server("a2")
    b = Server("b5", opts=Options(aliases=[Alias(name="b")]))
    b2 = Server("b6", opts=Options(aliases=[Alias(name="b")], depends_on=[a, b]))
