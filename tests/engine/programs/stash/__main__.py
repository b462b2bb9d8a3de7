"""Values that are kept from operation to operation."""

import os

import pulumi

step = int(os.environ["STEP"])
kept = pulumi.Stash("kept", input=f"of step {step}")
hidden = pulumi.Stash("hidden", input=pulumi.Output.secret({"password": "hunter2", "n": step}))
pulumi.export("kept", kept.output)
pulumi.export("hidden", hidden.output)
