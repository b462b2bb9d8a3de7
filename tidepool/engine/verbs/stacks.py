"""Making, selecting, listing, renaming and removing stacks, and their tags."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tidepool.engine import config_file
from tidepool.engine.config import reencrypted
from tidepool.engine.errors import EngineError, NoStackSelected, NoSuchStack, UsageError
from tidepool.engine.project import ProjectNotFoundError, find_project
from tidepool.engine.request import World
from tidepool.engine.state.backend import StackAlreadyExists
from tidepool.engine.state.layout import StackReference, selected_stack
from tidepool.engine.state.lock import StackLocked
from tidepool.engine.state.secrets import PassphraseCrypter, SecretsError, read_passphrase
from tidepool.engine.verbs.showing import ago, confirm, json_document, parse_time, table, time_text
from tidepool.engine.verbs.workspace import (
    OpenStack,
    Workspace,
    find_stack,
    open_workspace,
    verify_secrets_provider,
)


def new(
    world: World,
    *,
    name: str = "",
    stack: str = "",
    secrets_provider: str = "default",
    copy_config_from: str = "",
    no_select: bool = False,
) -> None:
    """Make an empty stack, and select it."""
    name = _one_name(name, stack)
    workspace = open_workspace(world)
    verify_secrets_provider(secrets_provider)
    if not name:
        raise UsageError("missing stack name")
    ref = workspace.parse(name)
    if workspace.project is not None and ref.project != workspace.project.name:
        raise UsageError(
            f'could not create stack: provided project name "{ref.project}" doesn\'t match Pulumi.yaml'
        )
    source = workspace.require(copy_config_from) if copy_config_from else None
    made = create_stack(workspace, ref)
    if source is not None:
        _copy_config(workspace.open(source), made)
    if not no_select:
        workspace.select(ref)


def select(
    world: World, *, name: str = "", stack: str = "", create: bool = False, secrets_provider: str = "default"
) -> None:
    """Select a stack."""
    name = _one_name(name, stack)
    workspace = open_workspace(world)
    if not name:
        error = NoStackSelected("no stack selected; specify a stack name with --stack")
        error.exit_code = NoSuchStack.exit_code
        raise error
    ref = workspace.parse(name)
    if not workspace.backend.exists(ref):
        if not create:
            raise NoSuchStack(workspace.shown(ref))
        verify_secrets_provider(secrets_provider)
        create_stack(workspace, ref)
    workspace.select(ref)


def unselect(world: World) -> None:
    """Select no stack."""
    workspace = open_workspace(world, need_project=True)
    if selected_stack(world.pulumi_home, workspace.require_project(), workspace.url):
        workspace.select(None)
        world.tell("Stack was unselected")


def list_stacks(
    world: World, *, all: bool = False, project: str = "", tag: str = "", json: bool = False
) -> None:
    """List stacks."""
    of_project: str | None = project or None
    if not all and not of_project:
        try:
            of_project = find_project(world.cwd).name
        except ProjectNotFoundError as error:
            raise EngineError(f"could not detect current project: {error}") from error
        except EngineError as error:
            raise EngineError(f"could not load current project: {error}") from error
    workspace = open_workspace(world)
    current = workspace.selected() if workspace.project or "PULUMI_STACK" in world.env else None
    found = [s for s in workspace.backend.stacks(of_project) if _has_tag(workspace, s.ref, tag)]
    found.sort(key=lambda s: workspace.shown(s.ref))
    if json:
        items = []
        for summary in found:
            item: dict[str, Any] = {"name": workspace.shown(summary.ref), "current": summary.ref == current}
            if summary.last_update:
                item["lastUpdate"] = time_text(parse_time(summary.last_update))
            if summary.resource_count is not None:
                item["resourceCount"] = summary.resource_count
            items.append(item)
        world.stdout.write(json_document(items))
        return
    rows = [
        [
            workspace.shown(s.ref) + ("*" if s.ref == current else ""),
            ago(parse_time(s.last_update), datetime.now(UTC)) if s.last_update else "n/a",
            str(s.resource_count) if s.resource_count is not None else "n/a",
        ]
        for s in found
    ]
    world.stdout.write(table(["NAME", "LAST UPDATE", "RESOURCE COUNT"], rows))


def _has_tag(workspace: Workspace, ref: StackReference, tag: str) -> bool:
    """Return whether the stack has the tag that is asked for: ``NAME``, or ``NAME=VALUE``."""
    if not tag:
        return True
    name, with_value, value = tag.partition("=")
    tags = workspace.backend.tags(ref)
    return name in tags and (not with_value or tags[name] == value)


def remove(
    world: World,
    *,
    name: str = "",
    stack: str = "",
    yes: bool = False,
    force: bool = False,
    preserve_config: bool = False,
    remove_backups: bool = False,
) -> None:
    """Remove a stack and its configuration."""
    workspace = open_workspace(world)
    ref = workspace.require(_one_name(name, stack))
    shown = workspace.shown(ref)
    if not yes and not world.flag("PULUMI_SKIP_CONFIRMATIONS"):
        confirm(world, f"This will permanently remove the '{shown}' stack!", shown)
    workspace.backend.remove(ref, force, remove_backups)
    if not preserve_config and ref.project == workspace.project_name:
        workspace.config_path(ref).unlink(missing_ok=True)
    world.say(f"Stack '{shown}' has been removed!")
    if workspace.project is not None:
        workspace.select(None)


def rename(world: World, *, new_name: str, stack: str = "") -> None:
    """Rename a stack, its state and its configuration."""
    workspace, ref = find_stack(world, stack)
    new = workspace.parse(new_name)
    project = workspace.require_project()
    if workspace.backend.exists(new):
        raise EngineError(f"a stack named {workspace.shown(new)} already exists")
    workspace.backend.rename(ref, new)
    old_file, new_file = project.stack_file(ref.name), project.stack_file(new.name)
    if old_file.exists():
        old_file.rename(new_file)
    workspace.select(new)
    world.say(f"Renamed {workspace.shown(ref)} to {workspace.shown(new)}")


def cancel(world: World, *, name: str = "", stack: str = "", yes: bool = False) -> None:
    """Take away the locks of a stack, whoever holds them, and take up what a killed operation left."""
    workspace = open_workspace(world)
    ref = workspace.require(_one_name(name, stack))
    if world.interactive and not yes:
        question = f"This will irreversibly cancel the currently running update for '{ref.name}'!"
        confirm(world, question, ref.name)
    if workspace.backend.journal(ref).read():
        _recover_journal(workspace, ref)
    workspace.backend.break_locks(ref)
    world.say(f"The currently running update for '{ref.name}' has been canceled!")


def create_stack(workspace: Workspace, ref: StackReference) -> OpenStack:
    """Make an empty stack, with a salt of its own in its configuration file.

    Raises:
        StackAlreadyExists: when there is one.
        SecretsError: when no passphrase is set.
    """
    world, backend = workspace.world, workspace.backend
    if backend.exists(ref):
        raise StackAlreadyExists(ref)
    project = workspace.require_project()
    path = project.stack_file(ref.name)
    config = config_file.read(path, project.name)
    opened = OpenStack(workspace, ref, config)
    try:
        if config.encryption_salt:
            crypter = opened.crypter()
            crypter.verify()
        else:
            crypter = PassphraseCrypter.new(read_passphrase(world.env, world.cwd))
    except SecretsError as error:
        raise SecretsError(f"could not create secrets manager for new stack: {error}") from error
    backend.create(ref, crypter.provider)
    world.tell(f"Created stack '{workspace.shown(ref)}'")
    if not config.encryption_salt:
        opened = OpenStack(
            workspace, ref, replace(config, encryption_salt=crypter.encryption_salt), [crypter]
        )
        opened.save_config()
    return opened


def _copy_config(source: OpenStack, target: OpenStack) -> None:
    values = {
        key: reencrypted(value, source.decrypt, target.encrypt)
        for key, value in sorted(source.config.values.items())
    }
    if values:
        target.with_config(target.config.with_values({**target.config.values, **values})).save_config()


def _one_name(argument: str, flag: str) -> str:
    if argument and flag:
        raise UsageError("only one of --stack or argument stack name may be specified, not both")
    return argument or flag


def _recover_journal(workspace: Workspace, ref: StackReference) -> None:
    """Take up the journal; where that cannot be, the next operation does it, or says why not."""
    from tidepool.engine.saved_state import SavedState

    world = workspace.world
    try:
        state = SavedState(workspace.open(ref))
        state.take_up_journal()
    except StackLocked:
        return  # whoever holds the lock may still write his journal
    except EngineError as error:
        world.tell(
            f"warning: what the operation did is still in its journal only, which could not be read: {error}"
        )
        return
    for warning in state.warnings:
        world.tell(f"warning: {warning}")


def show_tag(world: World, *, name: str, stack: str = "") -> None:
    """Show one tag's value."""
    workspace, ref = find_stack(world, stack)
    tags = workspace.backend.tags(ref)
    if name not in tags:
        raise EngineError(f"stack tag '{name}' not found for stack '{workspace.shown(ref)}'")
    world.say(tags[name])


def list_tags(world: World, *, stack: str = "", json: bool = False) -> None:
    """Show all tags."""
    workspace = open_workspace(world)
    tags = workspace.backend.tags(workspace.require(stack))
    if json:
        world.stdout.write(json_document(dict(sorted(tags.items()))))
    else:
        world.stdout.write(table(["NAME", "VALUE"], [[k, v] for k, v in sorted(tags.items())]))


def set_tag(world: World, *, name: str, value: str, stack: str = "") -> None:
    """Set one tag."""
    workspace = open_workspace(world)
    workspace.backend.set_tag(workspace.require(stack), name, value)


def remove_tag(world: World, *, name: str, stack: str = "") -> None:
    """Remove one tag; one that is not there is no mistake."""
    workspace = open_workspace(world)
    workspace.backend.remove_tag(workspace.require(stack), name)
