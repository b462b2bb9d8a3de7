"""As many resources as ITEMS says, one in ten of them depending on the one before."""

import os

import pulumi
from fake_sdk import Item

count = int(os.environ["ITEMS"])
previous = None
for number in range(count):
    depends = [previous] if previous is not None and number % 10 == 0 else None
    previous = Item(
        f"item-{number}",
        value=f"value {number}",
        size=number,
        opts=pulumi.ResourceOptions(depends_on=depends),
    )
pulumi.export("count", count)
