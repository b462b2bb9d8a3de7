"""Resources whose provider is part of the program."""

import os

import pulumi
from pulumi.dynamic import CheckFailure, CheckResult, CreateResult, DiffResult, ReadResult, Resource, ResourceProvider, UpdateResult

step = int(os.environ["STEP"])


class Provider(ResourceProvider):
    def check(self, olds, news):
        failures = [CheckFailure("n", "must not be thirteen")] if news.get("n") == 13 else []
        return CheckResult({**news, "checked": True}, failures)

    def diff(self, id, olds, news):
        changed = [k for k in ("n", "kind") if olds.get(k) != news.get(k)]
        return DiffResult(changes=bool(changed), replaces=["kind"] if "kind" in changed else [], stables=[], delete_before_replace=False)

    def create(self, props):
        if props["n"] == 99:
            raise ValueError("ninety-nine is too many")
        return CreateResult(f"{props['kind']}-{props['n']}", {**props, "double": props["n"] * 2})

    def update(self, id, olds, news):
        return UpdateResult({**news, "double": news["n"] * 2})

    def read(self, id, props):
        return ReadResult(id, {**props, "double": 1000})

    def delete(self, id, props):
        if os.environ.get("STUCK"):
            raise RuntimeError(f"{id} is stuck")


class Thing(Resource, module="shop", name="Thing"):
    double: pulumi.Output[int]

    def __init__(self, name, n, kind="small", opts=None):
        super().__init__(Provider(), name, {"n": n, "kind": kind, "double": None}, opts)


class Bare(ResourceProvider):
    def create(self, props):
        return CreateResult("bare", {"secret": props["secret"]})


class BareThing(Resource):
    secret: pulumi.Output[str]

    def __init__(self, name, secret):
        super().__init__(Bare(), name, {"secret": secret})


a = Thing("a", 1 if step < 2 else 2)
b = Thing("b", a.double, kind="small" if step < 3 else "large")
s = BareThing("s", pulumi.Output.secret("hunter2"))
if step == 4:
    c = Thing("c", 13, opts=pulumi.ResourceOptions(depends_on=[a, b, s]))
if step == 5:
    d = Thing("d", 99, opts=pulumi.ResourceOptions(depends_on=[a, b, s]))
if step == 6:
    gone = Thing("gone", 3)

pulumi.export("double", b.double)
pulumi.export("s", s.secret)
