"""The project of a folder, its backend, and a stack with its configuration and secrets.

Both the quick verbs and the operations begin here.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tidepool.engine import config_file
from tidepool.engine.config import Values, parse_key, put
from tidepool.engine.config_file import StackConfig
from tidepool.engine.errors import EngineError, NoStackSelected, NoSuchStack, NotSupportedError, UsageError
from tidepool.engine.program_config import ProgramConfig, program_config, validate, with_project_values
from tidepool.engine.project import Project, ProjectNotFoundError, find_project
from tidepool.engine.request import World
from tidepool.engine.resource import SecretsProvider
from tidepool.engine.state.backend import DiyBackend
from tidepool.engine.state.checkpoint import Crypter
from tidepool.engine.state.layout import StackReference, backend_url, select_stack, selected_stack
from tidepool.engine.state.secrets import Blind, PassphraseCrypter, read_passphrase, verify_provider

_CHOOSE = "no stack selected; please use `pulumi stack select` to choose one"
_CHOOSE_OR_NEW = "no stack selected; please use `pulumi stack select` or `pulumi stack init` to choose one"
_SECRETS_PROVIDERS = ("default", "passphrase", "awskms", "azurekeyvault", "gcpkms", "hashivault")


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folder's project, None outside of one, and the backend."""

    world: World
    project: Project | None
    backend: DiyBackend
    #: The backend's URL as it was given: the CLI keeps the selected stack under it.
    url: str

    @property
    def backend_name(self) -> str:
        """The CLI's name of a DIY backend: that of the machine."""
        return socket.gethostname()

    @property
    def project_name(self) -> str | None:
        return self.project.name if self.project else None

    def require_project(self) -> Project:
        """The project.

        Raises:
            ProjectNotFoundError: outside of one.
        """
        if self.project is None:
            raise ProjectNotFoundError(self.world.cwd)
        return self.project

    def parse(self, name: str) -> StackReference:
        """The stack that a person calls ``name``; it need not exist."""
        return StackReference.parse(name, self.project_name)

    def shown(self, ref: StackReference) -> str:
        """Return a stack's name for a person: the short one within its own project."""
        if self.world.qualify_names or ref.project != self.project_name:
            return ref.qualified
        return ref.name

    def selected(self) -> StackReference | None:
        """The selected stack, None where none is selected or it is gone."""
        name = self.world.env.get("PULUMI_STACK")
        if name is None:
            name = selected_stack(self.world.pulumi_home, self.require_project(), self.url)
        if not name:
            return None
        ref = self.parse(name)
        return ref if self.backend.exists(ref) else None

    def select(self, ref: StackReference | None) -> None:
        name = ref.qualified if ref else None
        select_stack(self.world.pulumi_home, self.require_project(), self.url, name)

    def require(self, name: str | None, *, offer_new: bool = False) -> StackReference:
        """The existing stack that is called ``name``, or the selected one. ``offer_new`` varies the advice.

        Raises:
            NoSuchStack: when there is none of that name.
            NoStackSelected: when none was named and none is selected.
        """
        if name:
            ref = self.parse(name)
            if not self.backend.exists(ref):
                raise NoSuchStack(name)
            return ref
        found = self.selected()
        if found is None:
            raise NoStackSelected(_CHOOSE_OR_NEW if offer_new else _CHOOSE)
        return found

    def config_path(self, ref: StackReference, config_file_name: str | None = None) -> Path:
        if config_file_name:
            return self.world.cwd / config_file_name
        return self.require_project().stack_file(ref.name)

    def open(self, ref: StackReference, config_file_name: str | None = None) -> OpenStack:
        """A stack with its configuration; the CLI's warning of keys without values is told."""
        path = self.config_path(ref, config_file_name)
        config = config_file.read(path, self.project_name)
        if config.empty_keys:
            self._warn_of_empty(config.empty_keys)
        return OpenStack(self, ref, config)

    def _warn_of_empty(self, keys: tuple[str, ...]) -> None:
        name = self.project_name
        quoted = [f'"{k if ":" in k else f"{name}:{k}"}"' for k in keys]
        many = "s" if len(quoted) > 1 else ""
        listed = " and ".join(quoted) if len(quoted) == 2 else ", ".join(quoted)
        self.world.tell(
            f"warning: No value for configuration key{many} {listed}. This is currently treated as an empty "
            'string `""`, but will be treated as `null` in a future version of pulumi.\n'
            f'Set the value{many} to `""` to avoid this warning.'
        )


@dataclass(frozen=True, slots=True)
class OpenStack:
    """An existing stack, with its configuration."""

    workspace: Workspace
    ref: StackReference
    config: StackConfig
    #: The opened crypter, once there is one: deriving its key is slow, and is done once.
    _opened: list[PassphraseCrypter] = field(default_factory=list)

    @property
    def world(self) -> World:
        return self.workspace.world

    @property
    def backend(self) -> DiyBackend:
        return self.workspace.backend

    @property
    def project(self) -> Project:
        """The project of the folder. Raises ProjectNotFoundError outside of one."""
        return self.workspace.require_project()

    @property
    def root(self) -> Path:
        return self.project.root

    def with_config(self, config: StackConfig) -> OpenStack:
        """The same with another configuration, not written yet."""
        return replace(self, config=config)

    def save_config(self) -> None:
        config_file.write(self.config, self.workspace.project_name)

    def crypter(self) -> PassphraseCrypter:
        """Return the crypter of the stack's secrets. Derives no key yet.

        Raises:
            NotSupportedError: when the stack's secrets are not kept by a passphrase.
            SecretsError: when the passphrase is not set.
            EngineError: when the stack has no salt yet; :meth:`with_passphrase` makes one.
        """
        if self._opened:
            return self._opened[0]
        _require_passphrase_provider(self.config)
        salt = self.config.encryption_salt or self._verifier_of_state()
        if not salt:
            raise EngineError(
                f"stack '{self.ref.name}' has no 'encryptionsalt' in {self.config.path}: it has no secrets yet"
            )
        crypter = open_passphrase(self.world, salt)
        self._opened.append(crypter)
        return crypter

    def encrypt(self, plaintext: str) -> str:
        """The ciphertext of ``plaintext``; errors as :meth:`crypter`."""
        return self.crypter().encrypt(plaintext)

    def decrypt(self, ciphertext: str) -> str:
        """The plaintext of ``ciphertext``; errors as :meth:`crypter`."""
        return self.crypter().decrypt(ciphertext)

    def _verifier_of_state(self) -> str | None:
        """Return the state's salt, if ``PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER`` asks for it and there is one."""
        wanted = self.world.flag("PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER")
        return passphrase_verifier(self.backend.export(self.ref)) if wanted else None

    def with_passphrase(self) -> OpenStack:
        """The same where the stack has a salt; otherwise with the state's, or with a new one that is written to its file.

        The state's is in the configuration that is returned, and whoever writes that writes it as well. The CLI writes it at once, which
        takes two readings of the file at each operation.

        Raises:
            NotSupportedError: when the stack's secrets are not kept by a passphrase.
            SecretsError: when the passphrase is not set.
        """
        _require_passphrase_provider(self.config)
        if self.config.encryption_salt:
            return self
        salt = self._verifier_of_state()
        if salt is None:
            crypter = PassphraseCrypter.new(read_passphrase(self.world.env, self.world.cwd))
        else:
            crypter = open_passphrase(self.world, salt)
        opened = replace(
            self, config=under_passphrase(self.config, crypter.encryption_salt), _opened=[crypter]
        )
        if salt is None:
            opened.save_config()
        return opened

    def merged(self) -> Values:
        """The configuration with what the project adds to it.

        Raises:
            EngineError: when it imports environments, which a DIY backend does not have.
        """
        if self.config.has_environment:
            raise NotSupportedError(f"'environment' in {self.config.path} (Pulumi ESC environments)")
        project = self.workspace.project
        return with_project_values(self.config.values, project) if project else self.config.values

    def program_config(self, *, check: bool = True) -> ProgramConfig:
        """Return the configuration that the program sees; ``check`` against the project's declarations first.

        Raises:
            ConfigError: when keys are missing or values not of their declared type.
            SecretsError: when there are secrets and the passphrase is wrong or not set.
        """
        values = self.merged()
        if check:
            validate(values, self.project, self.ref.name, self.decrypt)
        return program_config(values, self.decrypt)

    def with_overrides(self, texts: tuple[str, ...], *, path: bool) -> OpenStack:
        """The same with ``KEY=VALUE`` texts set, and written to its file."""
        if not texts:
            return self
        values = self.config.values
        for text in texts:
            key, value = split_pair(text)
            values = put(values, parse_key(key, self.project.name, path=path), value, path=path)
        changed = self.with_config(self.config.with_values(values))
        changed.save_config()
        return changed


def open_workspace(world: World, *, need_project: bool = False) -> Workspace:
    """The project and the backend that ``world`` is about.

    Raises:
        ProjectNotFoundError: when ``need_project`` and there is none.
        EngineError: when the project or the backend is not right.
    """
    try:
        project = find_project(world.cwd)
    except ProjectNotFoundError:
        if need_project:
            raise
        project = None
    url = backend_url(world.env, project.backend_url if project else None)
    # A relative folder of a project's backend counts from where one works, as for the CLI.
    return Workspace(world, project, DiyBackend.from_url(url, world.home, world.cwd, world.env), url)


def find_stack(world: World, name: str) -> tuple[Workspace, StackReference]:
    """The existing stack that is called ``name``, or the selected one, and the workspace of it.

    Raises:
        EngineError: as :func:`open_workspace` and :meth:`Workspace.require`.
    """
    workspace = open_workspace(world)
    return workspace, workspace.require(name)


def open_stack(world: World, name: str | None, config_file_name: str | None = None) -> OpenStack:
    """The stack ``name``, or the selected one, of the folder's project, with its configuration.

    Raises:
        NoSuchStack: when there is none of that name (exit code 6).
        EngineError: when anything else is missing or not right.
    """
    workspace = open_workspace(world, need_project=True)
    return workspace.open(workspace.require(name, offer_new=True), config_file_name)


def open_passphrase(world: World, salt: str) -> PassphraseCrypter:
    """The crypter for a salt and the passphrase of the environment; derives no key yet.

    Raises:
        SecretsError: when the passphrase is not set, or the salt is malformed.
    """
    return PassphraseCrypter(read_passphrase(world.env, world.cwd), salt)


def passphrase_verifier(untyped: Mapping[str, Any]) -> str | None:
    """The salt that an exported state was encrypted with; None where it has none.

    Raises:
        NotSupportedError: when its secrets are not kept by a passphrase.
    """
    raw = (untyped.get("deployment") or {}).get("secrets_providers") or {}
    if not raw.get("type"):
        return None
    verify_provider(SecretsProvider(raw["type"], raw.get("state") or {}))
    salt = (raw.get("state") or {}).get("salt")
    return salt if isinstance(salt, str) else None


def state_crypter(world: World, untyped: Mapping[str, Any]) -> Crypter:
    """The crypter of an exported state's secrets; errors as :func:`passphrase_verifier` and :func:`open_passphrase`."""
    salt = passphrase_verifier(untyped)
    return open_passphrase(world, salt) if salt is not None else Blind()


def under_passphrase(config: StackConfig, encryption_salt: str) -> StackConfig:
    """``config`` of a stack whose secrets a passphrase keeps."""
    return replace(config, encryption_salt=encryption_salt, secrets_provider="", encrypted_key="")


def verify_secrets_provider(name: str) -> None:
    """Refuse a secrets provider that is not the passphrase.

    Raises:
        UsageError: when there is no such provider.
        NotSupportedError: when only the CLI has it.
    """
    kind = name.partition(":")[0]
    if kind not in _SECRETS_PROVIDERS:
        raise UsageError(
            f"unknown secrets provider type '{kind}' (supported values: {','.join(_SECRETS_PROVIDERS)})"
        )
    if kind not in ("default", "passphrase"):
        raise NotSupportedError(f"the secrets provider '{kind}'")


def split_pair(text: str) -> tuple[str, str]:
    """``KEY=VALUE`` taken apart; a key in quotes may hold ``=``."""
    quote = text[:1]
    if quote in ('"', "'") and f"{quote}=" in text[1:]:
        key, _, value = text[1:].partition(f"{quote}=")
        return key, value
    key, separator, value = text.partition("=")
    if not separator:
        raise UsageError("config value must be in the form [key]=[value]")
    return key, value


def _require_passphrase_provider(config: StackConfig) -> None:
    provider = config.secrets_provider
    if provider not in ("", "default", "passphrase"):
        raise NotSupportedError(f"the secrets provider '{provider}' of {config.path}")
