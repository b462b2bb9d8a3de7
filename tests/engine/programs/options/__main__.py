"""Options that change how a resource is compared and removed."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])
Options = pulumi.ResourceOptions

from cloud import Plain

host = Server("host", zone="east" if step < 8 else "west")
guest = Server("guest", peer=host.address, opts=Options(deleted_with=host))
kept = Server("kept", zone="east" if step < 3 else "west", opts=Options(retain_on_delete=True))
blind = Server("blind", size=step, tags={"a": str(step), "b": str(step)}, opts=Options(ignore_changes=["size", "tags.a"]))
strict = Server("strict", size=1 if step < 2 else 2, opts=Options(replace_on_changes=["size"]))
any_change = Plain("any_change", tags={"a": 1 if step < 2 else 2}, opts=Options(replace_on_changes=["*"]))
first_away = Server("first_away", zone="east" if step < 2 else "west", opts=Options(delete_before_replace=True))
slow = Server("slow", opts=Options(custom_timeouts=pulumi.CustomTimeouts(create="5m", update="1h", delete="90s")))
if step < 4:
    forgotten = Server("forgotten", opts=Options(retain_on_delete=True))
later = Server("later", size=step // 3, opts=Options(depends_on=[slow, blind]))
hidden = Server("hidden", size=step, opts=Options(hide_diffs=["size"]))
pulumi.export("blind", blind.revision)
