"""Programs that break in all the ways that programs do."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])
Options = pulumi.ResourceOptions

a = Server("a", size=1)
pulumi.export("early", a.address)
match step:
    case 2:
        raise ValueError("the program is broken")
    case 3:
        raise pulumi.RunError("it cannot be run like this")
    case 4:
        pulumi.log.error("something is wrong", a)
        pulumi.log.warn("take care", a)
        pulumi.log.info("by the way")
        pulumi.log.debug("not to be seen")
    case 5:
        pulumi.Config().require("not_there")
    case 6:
        pulumi.Config("other").require_secret("neither")
    case 8:
        raise SystemExit(3)
    case 9:
        print("told on stdout")
        b = Server("b", opts=Options(parent=a))
        b2 = Server("b", opts=Options(parent=a, depends_on=[b]))
    case 10:
        c = Server("c", size=-1, opts=Options(depends_on=[a]))
    case 11:
        import no_such_module  # noqa: F401
    case 12:
        raise pulumi.ResourceError("this resource is bad", a)
    case 13:
        pulumi.require_pulumi_version("=3.1.2")
if step not in (9, 10):
    z = Server("z", peer=a.address)
    pulumi.export("late", z.address)
if step == 7:
    pulumi.export("broken", z.address.apply(lambda address: 1 / 0))
