"""A stack's state: export and import, small edits, and all of its secrets encrypted anew."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from tidepool.engine import json_text
from tidepool.engine import urn as urns
from tidepool.engine.config import reencrypted
from tidepool.engine.errors import EngineError, UsageError
from tidepool.engine.json_text import sorted_keys
from tidepool.engine.request import World
from tidepool.engine.state.checkpoint import decode_deployment, verify_supported
from tidepool.engine.state.layout import StackReference
from tidepool.engine.state.references import IntegrityError, verify_integrity
from tidepool.engine.state.secrets import Blind, PassphraseCrypter
from tidepool.engine.value_json import SECRET_SIGNATURE, SIGNATURE_KEY
from tidepool.engine.verbs.showing import confirm
from tidepool.engine.verbs.workspace import (
    Workspace,
    find_stack,
    open_passphrase,
    open_stack,
    open_workspace,
    passphrase_verifier,
    state_crypter,
    under_passphrase,
    verify_secrets_provider,
)


def export(
    world: World, *, stack: str = "", file: str = "", version: str = "", show_secrets: bool = False
) -> None:
    """Write the state to stdout or a file."""
    workspace, ref = find_stack(world, stack)
    if version:
        backend = workspace.backend
        raise EngineError(
            f"the current backend ({workspace.backend_name}) does not provide the ability to export previous "
            f"deployments; copies of them are in {backend.bucket.location(backend.layout.backups(ref))}"
        )
    untyped = workspace.backend.export(ref)
    if show_secrets and untyped.get("deployment"):
        crypter = state_crypter(world, untyped)
        untyped = {**untyped, "deployment": with_plaintext(untyped["deployment"], crypter.decrypt)}
    text = json.dumps(untyped, indent=4, ensure_ascii=False) + "\n"
    if file:
        try:
            (world.cwd / file).write_text(text, encoding="utf-8")
        except OSError as error:
            raise EngineError(f"could not open file: {error}") from error
    else:
        world.stdout.write(text)


def import_(world: World, *, stack: str = "", file: str = "", force: bool = False) -> None:
    """Replace the stack's state by what is read from stdin or a file."""
    workspace, ref = find_stack(world, stack)
    document = _read(workspace, file)
    if "checkpoint" not in document:
        verify_supported(document)
        document = _verified(workspace, ref, document, force)
    workspace.backend.import_(ref, document)
    world.say("Import complete.")


def _verified(workspace: Workspace, ref: StackReference, document: Raw, force: bool) -> Raw:
    deployment = document.get("deployment")
    if not isinstance(deployment, dict):
        return document
    mistakes = [
        f"resource '{r['urn']}' is from a different stack ({urns.parse(r['urn']).stack} != {ref.name})"
        for r in deployment.get("resources") or ()
        if urns.parse(r["urn"]).stack != ref.name
    ]
    if not workspace.world.skip_integrity_checks:
        try:
            verify_integrity(decode_deployment(deployment, Blind()))
        except IntegrityError as error:
            mistakes.append(f"state file contains errors: {error}")
    if mistakes and not force:
        mistakes.append("importing this file could be dangerous; rerun with --force to proceed anyway")
        raise EngineError(
            f"{len(mistakes)} errors occurred:"
            + "".join(f"\n    {at}) {mistake}" for at, mistake in enumerate(mistakes, 1))
        )
    for mistake in mistakes:
        workspace.world.tell(f"warning: {mistake}")
    for operation in deployment.get("pending_operations") or ():
        urn = operation["resource"]["urn"]
        workspace.world.tell(
            f"warning: removing pending operation '{operation['type']}' on '{urn}' from snapshot"
        )
    kept = {k: v for k, v in deployment.items() if k != "pending_operations"}
    if kept.get("resources"):
        kept["resources"] = [_with_sorted_properties(r) for r in kept["resources"]]
    if with_ciphertext(kept, str) != kept:  # it has plain secrets
        kept = _encrypted(workspace, ref, document, kept)
    return {**document, "deployment": kept}


def _encrypted(
    workspace: Workspace, ref: StackReference, document: Mapping[str, Any], deployment: dict[str, Any]
) -> dict[str, Any]:
    """``deployment`` with its plain secrets encrypted: with its own salt, or with the stack's."""
    salt = passphrase_verifier(document)
    if salt is not None:
        own = open_passphrase(workspace.world, salt)
        return with_ciphertext(deployment, own.encrypt)  # type: ignore[no-any-return]
    crypter = workspace.open(ref).with_passphrase().crypter()
    return _with_secrets_of(crypter, deployment)


def _with_secrets_of(crypter: PassphraseCrypter, deployment: Raw) -> Raw:
    provider = {"type": "passphrase", "state": {"salt": crypter.encryption_salt}}
    return {**with_ciphertext(deployment, crypter.encrypt), "secrets_providers": provider}


def _read(workspace: Workspace, file: str) -> dict[str, Any]:
    world = workspace.world
    where = str(world.cwd / file) if file else "stdin"
    try:
        # A backup in a bucket is called by its URL.
        content = workspace.backend.backup(file) if "://" in file else None
        if content is None:
            content = (world.cwd / file).read_bytes() if file else world.input.read().encode()
    except OSError as error:
        why = error.strerror or "cannot be read"
        raise EngineError(f"could not open file: open {where}: {why[0].lower()}{why[1:]}") from error
    try:
        document = json_text.loads(content)
    except json_text.JsonDamage as error:
        raise EngineError(f"{where} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise EngineError(
            f"{where} is not an exported stack: expected an object with 'version' and 'deployment'"
        )
    return document


def _with_sorted_properties(resource: dict[str, Any]) -> dict[str, Any]:
    """``resource`` with its properties in order, as Go writes them; a person may have written them otherwise."""
    return {k: sorted_keys(v) if k in ("inputs", "outputs") else v for k, v in resource.items()}


def with_plaintext(value: Any, decrypt: Callable[[str], str]) -> Any:
    """A part of a deployment with its secrets in plain text."""
    return _with_secrets(value, "ciphertext", "plaintext", decrypt)


def with_ciphertext(value: Any, encrypt: Callable[[str], str]) -> Any:
    """A part of a deployment with its plain secrets encrypted."""
    return _with_secrets(value, "plaintext", "ciphertext", encrypt)


def _with_secrets(value: Any, old: str, new: str, change: Callable[[str], str]) -> Any:
    if isinstance(value, list):
        return [_with_secrets(v, old, new, change) for v in value]
    if not isinstance(value, dict):
        return value
    if value.get(SIGNATURE_KEY) == SECRET_SIGNATURE and old in value:
        return {SIGNATURE_KEY: SECRET_SIGNATURE, new: change(value[old])}
    return {k: _with_secrets(v, old, new, change) for k, v in value.items()}


Raw: TypeAlias = dict[str, Any]


def delete(
    world: World,
    *,
    urns: tuple[str, ...] = (),
    stack: str = "",
    yes: bool = False,
    all: bool = False,
    force: bool = False,
    target_dependents: bool = False,
) -> None:
    """Remove resources from the state; what they stand for stays."""
    if all and urns:
        raise UsageError("cannot specify a resource URN when deleting all resources")
    change = partial(_without, force=force, target_dependents=target_dependents)
    count = _edit(world, stack, urns, all, yes, change)
    if all:
        world.say("Resources deleted")
    else:
        world.say("Resource deleted" if count == 1 else f"{count} resources deleted")


def _without(
    resources: Sequence[Raw], chosen: Sequence[Raw], *, force: bool, target_dependents: bool
) -> list[Raw]:
    gone = list(chosen)
    if target_dependents:
        for resource in resources:
            if resource not in gone and any(_depends(resource, g) for g in gone):
                gone.append(resource)
    for resource in gone:
        if resource.get("protect") and not force:
            raise EngineError(
                f"{resource['urn']} can't be safely deleted because it is protected. Re-run this command with "
                "--force to force deletion"
            )
        dependents = [r for r in resources if r not in gone and _depends(r, resource)]
        if dependents:
            listed = "".join(f" * {_quoted(r):<15} ({r['urn']})\n" for r in dependents)
            raise EngineError(
                f"{resource['urn']} can't be safely deleted because the following resources depend on it:\n"
                f"{listed}\nDelete those resources first or pass --target-dependents."
            )
    return [r for r in resources if r not in gone]


def set_protect(
    world: World,
    *,
    on: bool,
    urns: tuple[str, ...] = (),
    stack: str = "",
    yes: bool = False,
    all: bool = False,
) -> None:
    """Protect resources, or end their protection."""

    def change(resources: Sequence[Raw], chosen: Sequence[Raw]) -> list[Raw]:
        return [_with_protect(r, on) if r in chosen else r for r in resources]

    count = _edit(world, stack, urns, all, yes, change)
    done = "protected" if on else "unprotected"
    world.say(f"{'All' if all else count} resources {done}")


protect = partial(set_protect, on=True)
unprotect = partial(set_protect, on=False)


def _edit(
    world: World,
    stack: str,
    chosen_urns: Sequence[str],
    all_of_them: bool,
    yes: bool,
    change: Callable[[Sequence[Raw], Sequence[Raw]], list[Raw]],
) -> int:
    """Change the state's resources; how many were chosen."""
    if not all_of_them and not chosen_urns:
        raise UsageError("must supply <resource URN> unless pulumi is run interactively")
    workspace = open_workspace(world)
    ref = workspace.require(stack, offer_new=True)
    # Where nobody can be asked, the command itself is the confirmation, as for the CLI.
    if world.interactive and not yes and not world.flag("PULUMI_SKIP_CONFIRMATIONS"):
        confirm(world, "This will edit your stack's state directly.", "yes")
    untyped = workspace.backend.export(ref)
    deployment = untyped.get("deployment") or {}
    resources = deployment.get("resources") or []
    live = {r["urn"]: r for r in resources if not r.get("delete")}
    missing = [u for u in chosen_urns if u not in live]
    if missing:
        raise EngineError(
            f'No such resource "{missing[0]}" exists in the current state\nTo list the resource URNs in the stack, run '
            "`pulumi stack --show-urns`; to inspect the full state, run `pulumi stack export`."
        )
    chosen = list(live.values()) if all_of_them else [live[u] for u in dict.fromkeys(chosen_urns)]
    changed = {**deployment, "resources": change(resources, chosen)}
    verify_integrity(decode_deployment(changed, Blind()))
    workspace.backend.import_(ref, {**untyped, "deployment": changed}, edited=True)
    return len(chosen)


def _quoted(resource: Raw) -> str:
    return f'"{urns.name_of(resource["urn"])}"'


def _depends(resource: Raw, other: Raw) -> bool:
    urn = other["urn"]
    if other.get("delete"):
        return False
    named = {resource.get("parent"), resource.get("deletedWith"), *(resource.get("dependencies") or ())}
    for more in (resource.get("propertyDependencies") or {}).values():
        named.update(more or ())
    provider = (resource.get("provider") or "").rpartition("::")[0]
    return urn in named or urn == provider


def _with_protect(resource: Raw, on: bool) -> Raw:
    # In the place where Go writes it: after the outputs and the parent, which Go's reader does not mind.
    return {**resource, "protect": True} if on else {k: v for k, v in resource.items() if k != "protect"}


def change_secrets_provider(world: World, *, provider: str, stack: str = "") -> None:
    """Encrypt configuration and state with the passphrase that is read from stdin."""
    verify_secrets_provider(provider)
    opened = open_stack(world, stack)
    new = PassphraseCrypter.new(_new_passphrase(world))
    values = {
        key: reencrypted(value, opened.decrypt, new.encrypt) for key, value in opened.config.values.items()
    }
    untyped = opened.backend.export(opened.ref)
    deployment = untyped.get("deployment")
    if deployment:
        salt = passphrase_verifier(untyped)
        if salt is not None:
            old = open_passphrase(world, salt)
            old.verify()
            deployment = with_plaintext(deployment, old.decrypt)
        deployment = _with_secrets_of(new, deployment)
    world.say("Migrating old configuration and state to new secrets provider")
    # The state first: it can be brought back from its backup, whatever happens to the file after it.
    if deployment:
        opened.backend.import_(opened.ref, {**untyped, "deployment": deployment}, edited=True)
    opened.with_config(under_passphrase(opened.config.with_values(values), new.encryption_salt)).save_config()


def _new_passphrase(world: World) -> str:
    if world.interactive:
        from getpass import getpass

        return getpass("Enter your new passphrase to protect config/secrets: ", world.stderr)
    return world.input.readline().strip()
