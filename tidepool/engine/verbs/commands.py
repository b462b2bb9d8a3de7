"""All commands and flags that the CLI has, and what this engine does with each.

What it does not do is listed too, as refused: a person is then told what the CLI would do, and not that
there is no such thing. Names, letters and aliases are those of the CLI 3.260.
"""

from __future__ import annotations

from typing import Final

from tidepool.engine.verbs.grammar import Command, Flag, Positional
from tidepool.engine.verbs.operation_commands import (
    JSON,
    OPERATIONS,
    OUTPUT,
    SECRETS_PROVIDER,
    SHOW_SECRETS,
    STACK,
    STACK_INHERITED,
    YES,
)

_GLOBAL: Final = (
    Flag("color", "Color what is shown: always, never, raw or auto", "text", inherited=True),
    Flag("cwd", "Work as if started in this folder", "text", "C", inherited=True),
    Flag("disable-integrity-checking", "Do not verify the state", inherited=True),
    Flag("emoji", "Accepted; nothing is shown with emoji", short="e", inherited=True, ignored=True),
    Flag("fully-qualify-stack-names", "Show full stack names", short="Q", inherited=True),
    Flag("logflow", "Pass the log settings on to plugins", inherited=True),
    Flag("logtostderr", "Log to stderr", inherited=True),
    Flag("memprofilerate", "Accepted, without effect", "int", inherited=True, ignored=True, hidden=True),
    Flag("non-interactive", "Never ask anything", inherited=True),
    Flag("otel-traces", "Accepted, without effect", "text", inherited=True, ignored=True, hidden=True),
    Flag("profiling", "Accepted, without effect", "text", inherited=True, ignored=True, hidden=True),
    Flag("tracing", "Accepted, without effect", "text", inherited=True, ignored=True, hidden=True),
    Flag("tracing-header", "Accepted, without effect", "text", inherited=True, ignored=True, hidden=True),
    Flag("verbose", "How much to log, 1 to 11", "int", "v", "verbosity", inherited=True),
)


def _refused(name: str, *aliases: str) -> Command:
    return Command(name, "Not supported here; the Pulumi CLI does it", aliases=aliases, refused=True)


_CONFIG_FILE: Final = Flag("config-file", "Use this configuration file", "text", inherited=True)
_PATH: Final = Flag("path", "Keys are paths into maps and lists")

_CONFIG: Final = Command(
    "config",
    "Show or change a stack's configuration",
    "settings:List",
    flags=(
        STACK_INHERITED,
        _CONFIG_FILE,
        JSON,
        SHOW_SECRETS,
        Flag("open", "Accepted; there are no environments here", ignored=True, hidden=True),
    ),
    commands=(
        Command(
            "get",
            "Show one value",
            "settings:Get",
            positionals=(Positional("key", required=True),),
            flags=(JSON, _PATH, Flag("open", "", ignored=True, hidden=True)),
        ),
        Command(
            "set",
            "Set one value",
            "settings:Set",
            positionals=(Positional("key", required=True), Positional("value")),
            flags=(
                _PATH,
                Flag("plaintext", "Keep the value in plain text"),
                Flag("raw", "Keep the last line break of a value from stdin"),
                Flag("secret", "Encrypt the value"),
                Flag("type", "The type of the value: string, bool, int or float", "text", field="type_name"),
            ),
            exclusive=(("secret", "plaintext", "type"),),
        ),
        Command(
            "set-all",
            "Set several values",
            "settings:SetAll",
            flags=(
                _PATH,
                Flag("json", "Values as `config --json` shows them", "text", field="document"),
                Flag("plaintext", "KEY=VALUE to keep in plain text; may be repeated", "list"),
                Flag("secret", "KEY=VALUE to encrypt; may be repeated", "list"),
            ),
        ),
        Command(
            "remove",
            "Remove one value",
            "settings:remove_one",
            ("rm", "delete"),
            (Positional("key", required=True),),
            (_PATH,),
        ),
        Command(
            "remove-all",
            "Remove several values",
            "settings:Remove",
            ("rm-all", "delete-all"),
            (Positional("keys", required=True, many=True),),
            (_PATH,),
        ),
        Command(
            "copy",
            "Copy one value or all to another stack",
            "settings:Copy",
            ("cp",),
            (Positional("key"),),
            (_PATH, Flag("dest", "The stack to copy to", "text", "d")),
        ),
        Command(
            "refresh",
            "Bring the configuration back to that of the last update",
            "settings:Refresh",
            flags=(Flag("force", "Overwrite the file without a backup", short="f"),),
        ),
        Command("env", "Not supported here; Pulumi Cloud only", refused=True),
    ),
)

_STACKS: Final = Command(
    "stack",
    "Show a stack, or manage stacks",
    "show:Show",
    flags=(
        STACK_INHERITED,
        OUTPUT,
        SHOW_SECRETS,
        Flag("show-ids", "Show the resources' IDs", short="i"),
        Flag("show-name", "Show the stack's name only"),
        Flag("show-urns", "Show the resources' URNs", short="u"),
    ),
    commands=(
        Command(
            "new",
            "Make an empty stack",
            "stacks:New",
            ("init", "create", "setup"),
            (Positional("name"),),
            (
                Flag("stack", "The name of the stack", "text", "s"),
                SECRETS_PROVIDER,
                Flag("copy-config-from", "Copy the configuration of this stack", "text"),
                Flag("no-select", "Do not select the new stack"),
                YES,
                Flag("teams", "", "list", refused=True, hidden=True),
                Flag("remote-config", "", refused=True, hidden=True),
            ),
        ),
        Command(
            "select",
            "Select the stack that commands work on",
            "stacks:Select",
            (),
            (Positional("name"),),
            (
                Flag("stack", "The stack to select", "text", "s"),
                Flag("create", "Make the stack where there is none", short="c"),
                SECRETS_PROVIDER,
            ),
        ),
        Command("unselect", "Select no stack", "stacks:Unselect"),
        Command(
            "list",
            "List the project's stacks",
            "stacks:List",
            ("ls",),
            flags=(
                JSON,
                OUTPUT,
                Flag("all", "The stacks of all projects", short="a"),
                Flag("organization", "Only stacks of this organization", "text", "o"),
                Flag("project", "Only stacks of this project", "text", "p"),
                Flag("tag", "Only stacks with this tag: NAME or NAME=VALUE", "text", "t"),
            ),
        ),
        Command(
            "remove",
            "Remove a stack and its configuration",
            "stacks:Remove",
            ("rm", "delete"),
            (Positional("name"),),
            (
                STACK,
                YES,
                Flag("force", "Even if the stack still has resources, which are then forgotten", short="f"),
                Flag("preserve-config", "Keep the stack's configuration file"),
                Flag("remove-backups", "Also remove the backups of the state"),
            ),
        ),
        Command(
            "rename",
            "Rename a stack",
            "stacks:Rename",
            positionals=(Positional("new_name", required=True),),
        ),
        Command(
            "get",
            "Show a stack",
            "show:Show",
            flags=(
                STACK,
                OUTPUT,
                SHOW_SECRETS,
                Flag("show-ids", "Show the resources' IDs", short="i"),
                Flag("show-name", "Show the stack's name only"),
                Flag("show-urns", "Show the resources' URNs", short="u"),
            ),
        ),
        Command(
            "output",
            "Show a stack's outputs, or one of them",
            "show:Output",
            positionals=(Positional("name"),),
            flags=(JSON, SHOW_SECRETS, Flag("shell", "As a shell script")),
        ),
        Command(
            "history",
            "Show a stack's past updates",
            "show:History",
            ("hist",),
            flags=(
                JSON,
                OUTPUT,
                SHOW_SECRETS,
                Flag("full-dates", "Show dates in full"),
                Flag("page", "Which page of results", "int"),
                Flag("page-size", "How many results a page has; 0 for all", "int"),
            ),
            commands=(_refused("events"),),
        ),
        Command(
            "export",
            "Write a stack's state to stdout or a file",
            "state:Export",
            flags=(
                SHOW_SECRETS,
                Flag("file", "Write to this file", "text"),
                Flag("version", "A past version of the state", "text"),
            ),
        ),
        Command(
            "import",
            "Read a stack's state from stdin or a file",
            "state:Import",
            flags=(
                Flag("file", "Read this file", "text"),
                Flag("force", "Even if the state has errors", short="f"),
            ),
        ),
        Command(
            "tag",
            "Manage a stack's tags",
            flags=(STACK_INHERITED,),
            commands=(
                Command("get", "Show one tag", "tags:Get", positionals=(Positional("name", required=True),)),
                Command("list", "Show all tags", "tags:List", ("ls",), flags=(JSON, OUTPUT)),
                Command(
                    "set",
                    "Set one tag",
                    "tags:Set",
                    positionals=(Positional("name", required=True), Positional("value", required=True)),
                ),
                Command(
                    "remove",
                    "Remove one tag",
                    "tags:Remove",
                    ("rm", "delete"),
                    (Positional("name", required=True),),
                ),
            ),
        ),
        Command(
            "change-secrets-provider",
            "Encrypt a stack's secrets anew",
            "rekey:ChangeSecretsProvider",
            positionals=(Positional("provider", required=True),),
        ),
        _refused("graph"),
        _refused("drift"),
        _refused("migrate"),
        _refused("schedule"),
        _refused("webhook"),
    ),
)

_URNS: Final = (Positional("urns", many=True),)
_ALL: Final = Flag("all", "All resources of the stack")

_STATE: Final = Command(
    "state",
    "Edit a stack's state",
    commands=(
        Command(
            "remove",
            "Remove resources from the state, without deleting them",
            "state:Delete",
            ("rm", "delete"),
            _URNS,
            (
                STACK,
                YES,
                _ALL,
                Flag("force", "Even if they are protected"),
                Flag("target-dependents", "Also what depends on them"),
            ),
        ),
        Command("protect", "Protect resources", "state:protect", (), _URNS, (STACK, YES, _ALL)),
        Command("unprotect", "Unprotect resources", "state:unprotect", (), _URNS, (STACK, YES, _ALL)),
        _refused("edit"),
        _refused("get"),
        _refused("move"),
        _refused("rename"),
        _refused("repair"),
        _refused("taint"),
        _refused("untaint"),
        _refused("upgrade"),
    ),
)

_OTHERS: Final = (
    Command("version", "Show the version of Pulumi that this engine is compatible with", "about:Version"),
    Command(
        "about",
        "Show where this engine runs and what it works on",
        "about:About",
        flags=(STACK, JSON, OUTPUT),
        commands=(_refused("env"),),
    ),
    Command(
        "whoami",
        "Show who is logged in to where",
        "account:WhoAmI",
        flags=(JSON, OUTPUT, Flag("verbose", "Show more", short="v")),
    ),
    Command(
        "login",
        "Choose the folder where state is kept",
        "account:Login",
        positionals=(Positional("url"),),
        flags=(
            Flag("cloud-url", "The backend's URL", "text", "c"),
            Flag("local", "Keep state in the home folder", short="l"),
            Flag("interactive", "", ignored=True, hidden=True),
            Flag("insecure", "", ignored=True, hidden=True),
            Flag("default-org", "", "text", refused=True, hidden=True),
            Flag("oidc-token", "", "text", refused=True, hidden=True),
            Flag("oidc-org", "", "text", refused=True, hidden=True),
            Flag("oidc-team", "", "text", refused=True, hidden=True),
            Flag("oidc-user", "", "text", refused=True, hidden=True),
            Flag("oidc-expiration", "", "text", refused=True, hidden=True),
        ),
    ),
    Command(
        "logout",
        "Forget the chosen backend",
        "account:Logout",
        positionals=(Positional("url"),),
        flags=(
            Flag("cloud-url", "The backend's URL", "text", "c"),
            Flag("local", "The home folder", short="l"),
            Flag("all", "All backends"),
        ),
    ),
    Command(
        "cancel",
        "Take away the locks of a stack",
        "stacks:Cancel",
        positionals=(Positional("name"),),
        flags=(STACK, YES),
    ),
    Command(
        "plugin",
        "Show plugins",
        commands=(
            Command(
                "list",
                "List the installed plugins",
                "account:Plugins",
                ("ls",),
                flags=(JSON, OUTPUT, Flag("project", "", refused=True, hidden=True)),
            ),
            _refused("install"),
            _refused("remove", "rm"),
            _refused("run"),
        ),
    ),
)

#: What only the CLI does.
_CLI_ONLY: Final = (
    "api console convert convert-trace deployment do env esc events gen-completion gen-markdown generate-cli-spec "
    "import insights install logs neo new org package policy project replay-events schema template view-trace watch ai"
)

ROOT: Final = Command(
    "pulumi",
    "The embedded Pulumi engine",
    "about:root",
    flags=(*_GLOBAL, Flag("version", "Show the version")),
    commands=(*OPERATIONS, _CONFIG, _STACKS, _STATE, *_OTHERS, *map(_refused, _CLI_ONLY.split())),
)
