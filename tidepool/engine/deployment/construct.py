"""The message that asks a provider to make a component."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pulumi.runtime.proto import provider_pb2, resource_pb2

from tidepool.engine import wire
from tidepool.engine.deployment.callbacks import HOOK_FIELDS
from tidepool.engine.deployment.goal import Goal
from tidepool.engine.deployment.registration import alias_message, as_outputs

if TYPE_CHECKING:
    from tidepool.engine.deployment.deployment import Deployment


async def surroundings(d: Deployment) -> dict[str, Any]:
    """What a provider is told of the operation whenever it runs a program of its own: fields of the request."""
    return {
        "project": d.project,
        "stack": d.stack,
        "config": d.program_config,
        "configSecretKeys": d.secret_config_keys,
        "dryRun": d.options.preview,
        "parallel": d.options.parallel,
        "monitorEndpoint": await d.monitor_address(),
        "organization": d.organization,
    }


async def construct_request(
    d: Deployment, options: resource_pb2.TransformResourceOptions, goal: Goal
) -> provider_pb2.ConstructRequest:
    """What the provider of ``goal`` is to construct, and where it reaches the monitor."""
    by_property = {k: list(v) for k, v in goal.property_dependencies.items()}
    providers = dict(options.providers)
    construct = provider_pb2.ConstructRequest(
        **await surroundings(d),
        type=goal.type,
        name=goal.name,
        parent=goal.parent,
        inputs=wire.to_struct(as_outputs(goal.properties, by_property), outputs=True),
        inputDependencies={
            k: provider_pb2.ConstructRequest.PropertyDependencies(urns=v) for k, v in by_property.items()
        },
        providers=providers,
        dependencies=goal.dependencies,
        aliases=[alias_message(a) for a in goal.aliases],
        protect=goal.protect,
        additionalSecretOutputs=goal.additional_secret_outputs,
        deletedWith=goal.deleted_with,
        replace_with=goal.replace_with,
        deleteBeforeReplace=goal.delete_before_replace,
        ignoreChanges=goal.ignore_changes,
        replaceOnChanges=goal.replace_on_changes,
        retainOnDelete=goal.retain_on_delete,
        accepts_output_values=True,
    )
    if options.HasField("custom_timeouts"):
        t = options.custom_timeouts
        construct.customTimeouts.CopyFrom(
            provider_pb2.ConstructRequest.CustomTimeouts(
                create=t.create, update=t.update, delete=t.delete, read=t.read
            )
        )
    if goal.resource_hooks:
        fields = {HOOK_FIELDS[k]: v for k, v in goal.resource_hooks.items()}
        construct.resource_hooks.CopyFrom(provider_pb2.ConstructRequest.ResourceHooksBinding(**fields))
    return construct
