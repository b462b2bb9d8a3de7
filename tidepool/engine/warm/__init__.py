"""For programs that run one operation after the other: an engine behind the Automation API that is kept warm.

with warm_command(env, folder=project, modules=["what.the.program.imports"], plugins=["name"]) as command:
    stack = automation.select_stack("dev", work_dir=folder, opts=LocalWorkspaceOptions(pulumi_command=command))
    stack.up(...)

It does what `choose_command` of the same environment does, sooner. Importing this imports the SDK.
"""

from tidepool.engine.warm.command import WarmPulumiCommand as WarmPulumiCommand
from tidepool.engine.warm.command import warm_command as warm_command
