"""Functions of the program that run before and after steps."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])

from pathlib import Path

log = Path(os.environ["CLOUD_DIR"]) / "hooks.log"


def told(args: pulumi.ResourceHookArgs) -> None:
    with log.open("a") as f:
        f.write(f"{args.name} {args.type} {args.id} {args.new_inputs} {args.old_inputs} {args.new_outputs} {args.old_outputs}\n")
    if os.environ.get("FAIL") == args.name:
        raise ValueError(f"hook of {args.name} fails")


def before(args: pulumi.ResourceHookArgs) -> None:
    pulumi.log.info(f"before {args.name}")
    told(args)


def after(args: pulumi.ResourceHookArgs) -> None:
    pulumi.log.info(f"after {args.name}")
    told(args)


first = pulumi.ResourceHook("before", before, pulumi.ResourceHookOptions(on_dry_run=False))
last = pulumi.ResourceHook("after", after)
dry = pulumi.ResourceHook("dry", before, pulumi.ResourceHookOptions(on_dry_run=True))
bound = pulumi.ResourceHookBinding(
    before_create=[first], after_create=[last], before_update=[first], after_update=[last],
    before_delete=[first], after_delete=[last],
)  # fmt: skip
a = Server("a", size=step, opts=pulumi.ResourceOptions(hooks=bound))
b = Server("b", peer=a.address, size=step, opts=pulumi.ResourceOptions(hooks=pulumi.ResourceHookBinding(before_create=[dry])))
if step < 3:
    c = Server("c", opts=pulumi.ResourceOptions(hooks=bound, depends_on=[b]))
