"""A stack shown: ``stack``, ``stack output`` and ``stack history``."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from tidepool.engine import urn as urns
from tidepool.engine.config import Decrypt, Value, from_document, is_object, is_secure, text_of
from tidepool.engine.display.words import duration
from tidepool.engine.errors import EngineError, UsageError
from tidepool.engine.json_text import sorted_keys
from tidepool.engine.request import World
from tidepool.engine.state.layout import StackReference
from tidepool.engine.state.secrets import Blind
from tidepool.engine.state.store import RawCheckpoint, UpdateInfo
from tidepool.engine.value_json import decode_properties, encode_properties
from tidepool.engine.values import masked, without_secrets
from tidepool.engine.verbs.showing import ago, json_document, output_text, parse_time, table, time_text
from tidepool.engine.verbs.workspace import Workspace, find_stack, open_workspace, state_crypter


def show(
    world: World,
    *,
    stack: str = "",
    json: bool = False,
    show_ids: bool = False,
    show_name: bool = False,
    show_secrets: bool = False,
    show_urns: bool = False,
) -> None:
    """Show a stack's resources and outputs."""
    workspace = open_workspace(world)
    ref = workspace.require(stack, offer_new=True)
    if show_name:
        world.say(ref.qualified if world.qualify_names else ref.name)
        return
    raw = workspace.backend.read(ref)
    outputs = stack_outputs(workspace, raw, show_secrets)
    deployment = None if raw is None else raw.deployment
    if json:
        world.stdout.write(json_document(_stack_json(workspace, ref, deployment, outputs)))
        return
    world.say(f"Current stack is {workspace.shown(ref)}:\n    Managed by {workspace.backend_name}")
    for line in ["    No updates yet; run `pulumi up`"] if deployment is None else _manifest(deployment):
        world.say(line)
    resources = (deployment or {}).get("resources") or []
    world.say(f"Current stack resources ({len(resources)}):")
    if not resources:
        world.say("    No resources currently in this stack")
    else:
        world.say(_tree(resources, show_ids, show_urns))
        world.stdout.write(outputs_text(outputs))
    world.say("\nUse `pulumi stack select` to change stack; `pulumi stack ls` lists known ones")


def _stack_json(
    workspace: Workspace,
    ref: StackReference,
    deployment: Mapping[str, Any] | None,
    outputs: Mapping[str, Any],
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "project": ref.project,
        "stack": ref.name,
        "backend": workspace.backend_name,
        "tags": {},
    }
    resources: list[dict[str, Any]] = []
    if deployment is not None:
        manifest = deployment.get("manifest") or {}
        shown: dict[str, Any] = {}
        if manifest.get("time"):
            shown["time"] = time_text(parse_time(manifest["time"]))
        if manifest.get("version"):
            shown["pulumiVersion"] = manifest["version"]
        document["manifest"] = shown
        for resource in deployment.get("resources") or ():
            item = {"urn": resource["urn"], "type": resource["type"], "name": urns.name_of(resource["urn"])}
            item.update({key: resource[key] for key in ("id", "parent") if resource.get(key)})
            resources.append(item)
    return {**document, "resources": resources, "outputs": outputs}


def _manifest(deployment: Mapping[str, Any]) -> Iterator[str]:
    """Say when and by what a stack was updated last."""
    manifest = deployment.get("manifest") or {}
    if manifest.get("time"):
        moment = parse_time(manifest["time"])
        since = ago(moment, datetime.now(UTC))
        yield f"    Last updated: {since} ({moment.astimezone():%Y-%m-%d %H:%M:%S.%f %z %Z})"
    if manifest.get("version"):
        yield f"    Pulumi version used: {manifest['version']}"


def _tree(resources: list[dict[str, Any]], show_ids: bool, show_urns: bool) -> str:
    """The resources below their parents; those without one are children of the stack."""
    by_urn = {r["urn"]: r for r in resources}
    root = next(
        (r for r in by_urn.values() if r["type"] == urns.ROOT_STACK_TYPE and not r.get("parent")), None
    )
    children: dict[str, list[dict[str, Any]]] = {}
    for resource in by_urn.values():
        parent = resource.get("parent") or (root["urn"] if root is not None else "")
        if resource is not root:
            children.setdefault(parent if parent in by_urn else "", []).append(resource)
    rows: list[tuple[str, str, str]] = []

    def add(resource: dict[str, Any], padding: str, branch: str) -> None:
        below = children.get(resource["urn"], [])
        inner = padding + {"├─ ": "│  ", "└─ ": "   "}.get(branch, "")
        info = inner + ("│  " if below else "   ")
        more = ""
        if show_urns:
            more += f"    {info}URN: {resource['urn']}\n"
        if show_ids and resource.get("id"):
            more += f"    {info}ID: {resource['id']}\n"
        rows.append((padding + branch + resource["type"], urns.name_of(resource["urn"]), more))
        for at, child in enumerate(below):
            add(child, inner, "└─ " if at == len(below) - 1 else "├─ ")

    for top in ([root] if root is not None else []) + children.get("", []):
        add(top, "", "")
    width = max(4, *(len(left) for left, _, _ in rows))
    lines = [f"    {'TYPE'.ljust(width)}  NAME\n"]
    lines += [f"    {left.ljust(width)}  {name}\n{more}" for left, name, more in rows]
    return "".join(lines)


def show_outputs(
    world: World,
    *,
    name: str = "",
    stack: str = "",
    json: bool = False,
    shell: bool = False,
    show_secrets: bool = False,
) -> None:
    """Show a stack's outputs, or one of them."""
    if shell and json:
        raise UsageError("only one of --json and --shell may be set")
    workspace, ref = find_stack(world, stack)
    outputs = stack_outputs(workspace, workspace.backend.read(ref), show_secrets)
    if name and name not in outputs:
        raise EngineError(f"current stack does not have output property '{name}'")
    if shell:
        for shown in [name] if name else outputs:
            world.say(f"{shown}={shlex.quote(output_text(outputs[shown]))}")
    elif json:
        world.stdout.write(json_document(outputs[name] if name else outputs))
    elif name:
        world.say(output_text(outputs[name]))
    else:
        world.stdout.write(outputs_text(outputs))


def stack_outputs(workspace: Workspace, raw: RawCheckpoint | None, show_secrets: bool) -> dict[str, Any]:
    """The stack's outputs as JSON values by name, in order; secrets are ``"[secret]"`` or plain.

    Raises:
        SecretsError: when secrets are to be shown and the passphrase is wrong or not set.
    """
    for resource in (raw.deployment.get("resources") or ()) if raw is not None else ():
        if resource["type"] == urns.ROOT_STACK_TYPE and not resource.get("delete"):
            assert raw is not None
            crypter = state_crypter(workspace.world, raw.untyped) if show_secrets else Blind()
            outputs = decode_properties(resource.get("outputs") or {}, crypter.decrypt)
            plain = without_secrets(outputs) if show_secrets else masked(outputs)
            encoded = encode_properties(plain, _no_secrets_left)
            ordered: dict[str, Any] = sorted_keys(encoded)
            return ordered
    return {}


def outputs_text(outputs: Mapping[str, Any]) -> str:
    """The stack's outputs for a person."""
    head = f"Current stack outputs ({len(outputs)}):\n"
    if not outputs:
        return f"{head}    No output values currently in this stack\n"
    return head + table(["OUTPUT", "VALUE"], [[k, output_text(v)] for k, v in outputs.items()], "    ")


def _no_secrets_left(_: str) -> str:
    raise AssertionError("a secret was left in outputs that are to be shown")


#: What stands for a value that cannot be decrypted, with a salt that was changed since, say.
_UNREADABLE = "ERROR_UNABLE_TO_DECRYPT"


def show_history(
    world: World,
    *,
    stack: str = "",
    json: bool = False,
    show_secrets: bool = False,
    full_dates: bool = False,
    page: int = 1,
    page_size: int = 10,
) -> None:
    """Show the past updates, the latest first. A ``page_size`` of 0 shows all."""
    workspace, ref = find_stack(world, stack)
    updates = workspace.backend.history(ref, max(page, 1), max(page_size, 0))
    if json:
        decrypt: Decrypt | None = None
        if show_secrets:
            workspace.require_project()
            decrypt = workspace.open(ref).decrypt

        world.stdout.write(json_document([_update_json(u, decrypt) for u in updates]))
        return
    if not updates:
        never = "Stack has never been updated"
        world.say(f"No stack updates found on page '{page}'" if page > 1 else never)
    for update in updates:
        world.stdout.write(_update_text(update, full_dates))


def _update_text(update: UpdateInfo, full_dates: bool) -> str:
    changes = update.resource_changes
    counts = "".join(
        f"{sign}{changes.get(op, 0)}"
        for sign, op in (("+", "create"), ("-", "delete"), ("~", "update"), (" ", "same"))
    )
    start = datetime.fromtimestamp(update.start_time, UTC)
    when = f"{start:%Y-%m-%d %H:%M:%S} +0000 UTC" if full_dates else ago(start, datetime.now(UTC))
    lines = [
        f"Version: {update.version}",
        f"UpdateKind: {update.kind}",
        f"Status: {update.result}",
        f"Message: {update.message}",
        f"{counts} Updated {when} took {duration(update.end_time - update.start_time)}",
        *(f"    {k}: {v}" for k, v in sorted(update.environment.items()) if v.strip()),
        "",
    ]
    return "".join(f"{line}\n" for line in lines)


def _update_json(update: UpdateInfo, decrypt: Decrypt | None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "version": update.version,
        "kind": update.kind,
        "startTime": time_text(datetime.fromtimestamp(update.start_time, UTC)),
        "message": update.message,
        "environment": dict(sorted(update.environment.items())),
        "config": {k: _config_item(from_document(v), decrypt) for k, v in sorted(update.config.items())},
    }
    if update.result:
        document["result"] = update.result
    if update.result != "in-progress":
        document["endTime"] = time_text(datetime.fromtimestamp(update.end_time, UTC))
        document["resourceChanges"] = dict(sorted(update.resource_changes.items()))
    return document


def _config_item(value: Value, decrypt: Decrypt | None) -> Mapping[str, Any]:
    item: dict[str, Any] = {}
    if not is_secure(value):
        item.update(shown_value(value, str))
    elif decrypt is not None:
        try:
            item.update(shown_value(value, decrypt))
        except EngineError:
            item["value"] = _UNREADABLE
    return {**item, "secret": is_secure(value)}


def shown_value(value: Value, decrypt: Decrypt) -> dict[str, Any]:
    """A configuration value in JSON answers: its text, and the object where it is one."""
    from tidepool.engine.config import decrypted

    item: dict[str, Any] = {"value": text_of(value, decrypt)}
    if is_object(value):
        item["objectValue"] = sorted_keys(decrypted(value, decrypt))
    return item
