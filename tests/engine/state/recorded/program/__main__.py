"""One resource for every kind of thing that a checkpoint can hold. See ../README.md."""

import os
import time

import pulumi
from pulumi import CustomTimeouts, Output, ResourceOptions
from pulumi.dynamic import CreateResult, Resource, ResourceProvider

config = pulumi.Config()


class Everything(ResourceProvider):
    def create(self, props):
        if props.get("slow"):
            time.sleep(60)
        outputs = {
            "made": True,
            "ratio": 0.1,
            "big": 12345678901234567890,
            "tiny": 1e-7,
            "huge": 1e300,
            "whole": 3.0,
            "text": "<a href='x'>&amp;\u2028é😀\u0001\u007f</a>",
        }
        return CreateResult("id-" + props["name"], {**props, **outputs})

    def delete(self, id, props):
        if props.get("stays"):
            raise Exception("it stays")


class Thing(Resource):
    made: Output[bool]

    def __init__(self, name, opts=None, **inputs):
        super().__init__(Everything(), name, {"name": name, "made": None, **inputs}, opts)


class Pair(pulumi.ComponentResource):
    def __init__(self, name, opts=None):
        super().__init__("recorded:index:Pair", name, None, opts)
        nested = {"z": 1, "a": [1, 2.5, None, {"k": Output.secret("deep")}]}
        self.inner = Thing(f"{name}-inner", ResourceOptions(parent=self), nested=nested)
        self.register_outputs({"inner": self.inner.made})


secret = Output.secret({"user": "root", "password": "s3cr3t<&>"})
a = Thing(
    "a",
    ResourceOptions(
        additional_secret_outputs=["plain"],
        custom_timeouts=CustomTimeouts(create="5m", delete="90s"),
        ignore_changes=["foo"],
        replace_on_changes=["bar", "baz[0]", "version"],
    ),
    plain="x",
    token=secret,
    empty={},
    none=[],
    version=config.get_int("version"),
)
b = Thing(
    "b",
    ResourceOptions(
        depends_on=[a], retain_on_delete=True, deleted_with=a, aliases=[pulumi.Alias(name="old-b")], protect=True
    ),
    ref=a.made,
    doc=pulumi.StringAsset("hello <world>"),
    file=pulumi.FileAsset("Pulumi.yaml"),
    archive=pulumi.AssetArchive({"a.txt": pulumi.StringAsset("a"), "sub": pulumi.FileArchive("./folder")}),
)
pair = Pair("pair")
hidden = Thing(
    "hidden",
    ResourceOptions(hide_diffs=["plain", "nested.deep[0]"], replacement_trigger="t1", replace_with=[a]),
    plain=1,
    stays=True,
    version=config.get_int("version"),
)
if config.get_bool("slow"):
    Thing("slow", slow=True, token=secret)

pulumi.export("a", a.id)
pulumi.export("secret", secret)
pulumi.export("thing", a)
pulumi.export("pair", pair)
pulumi.export("float", 1.5)
pulumi.export("whole", 2.0)
