"""Everything a checkpoint can hold: secrets, components, two kinds of providers, dependencies, options."""

import os

import pulumi
from cloud import Database, Provider, Server
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult

step = int(os.environ["STEP"])
Options = pulumi.ResourceOptions


class Doubler(ResourceProvider):
    def diff(self, id, olds, news):
        return DiffResult(changes=olds["n"] != news["n"])

    def create(self, props):
        return CreateResult("doubler", {**props, "double": props["n"] * 2})

    def update(self, id, olds, news):
        return UpdateResult({**news, "double": news["n"] * 2})


class Double(Resource):
    double: pulumi.Output[int]

    def __init__(self, name: str, n: int):
        super().__init__(Doubler(), name, {"n": n, "double": None})


class Web(pulumi.ComponentResource):
    def __init__(self, name: str):
        super().__init__("my:index:Web", name)
        self.front = Server(f"{name}-front", size=step, opts=Options(parent=self, protect=False))
        self.register_outputs({"url": self.front.address, "password": password})


password = pulumi.Config().require_secret("password")
mine = Provider("mine", region="north", token=password)
db = Database("db", password=password, opts=Options(additional_secret_outputs=["connection"]))
web = Web("web")
double = Double("double", step)
peer = Server("peer", peer=db.connection, tags={"list": [1, {"deep": password}]}, opts=Options(
    provider=mine, depends_on=[web], deleted_with=mine, custom_timeouts=pulumi.CustomTimeouts(create="5m"),
    retain_on_delete=step == 9, ignore_changes=["note"], aliases=[pulumi.Alias(name="mate")],
))  # fmt: skip
source = Server("source", source=pulumi.AssetArchive({"a.txt": pulumi.StringAsset("hello")}), zone=f"zone {step}")
pulumi.export("double", double.double)
pulumi.export("password", password)
pulumi.export("url", web.front.address)
