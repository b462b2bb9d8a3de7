"""Functions that change resources before they are registered."""

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


def bigger(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
    if args.type_ == "cloud:index:Server":
        return pulumi.ResourceTransformResult(
            {**args.props, "size": 10 * step},
            pulumi.ResourceOptions.merge(args.opts, pulumi.ResourceOptions(protect=step == 3)),
        )
    return None


async def tagged(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
    if args.type_ == "cloud:index:Server":
        return pulumi.ResourceTransformResult({**args.props, "tags": {"by": args.name}}, args.opts)
    return None


def old_style(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
    if args.type_ == "cloud:index:Server":
        return pulumi.ResourceTransformationResult({**args.props, "note": "old style"}, args.opts)
    return None


def looked_up(args: pulumi.InvokeTransformArgs) -> pulumi.InvokeTransformResult | None:
    return pulumi.InvokeTransformResult({**args.args, "name": "transformed"}, args.opts)


if step > 1:
    pulumi.runtime.register_stack_transformation(old_style)
    pulumi.runtime.register_resource_transform(bigger)
    pulumi.runtime.register_invoke_transform(looked_up)
a = Server("a", size=1)
b = Server("b", size=2, opts=pulumi.ResourceOptions(transforms=[tagged]))
w = Web("w", 1, pulumi.ResourceOptions(transforms=[tagged]))
pulumi.export("found", pulumi.runtime.invoke("cloud:index:lookup", {"name": "x"}).value["found"])
