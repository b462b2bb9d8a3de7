"""All commands and flags that the CLI has, and what this engine does with each.

What it does not do is listed too, as refused: a person is then told what the CLI would do, and not that
there is no such thing. Names, letters and aliases are those of the CLI 3.260.
"""

from __future__ import annotations

from typing import Final

from tidepool.engine.verbs.grammar import Command, Flag, Positional

#: Flags that other commands have, too.
STACK: Final = Flag("stack", "The stack to work on; the selected one where not given", "text", "s")
STACK_INHERITED: Final = Flag(
    "stack", "The stack to work on; the selected one where not given", "text", "s", inherited=True
)
JSON: Final = Flag("json", "Show the answer as JSON", short="j")
OUTPUT: Final = Flag("output", "The form of the answer: default or json", "text", choices=("default", "json"))
YES: Final = Flag("yes", "Do not ask for confirmation", short="y")
SHOW_SECRETS: Final = Flag("show-secrets", "Show secrets in plain text")
SECRETS_PROVIDER: Final = Flag("secrets-provider", "How secrets are encrypted: default or passphrase", "text")

_OPERATION: Final = (
    STACK,
    Flag("client", "The address of a language runtime that runs an inline program", "text", hidden=True),
    Flag("config", "Set KEY=VALUE in the stack's configuration first; may be repeated", "list", "c"),
    Flag("config-file", "Use this configuration file", "text"),
    Flag("config-path", "Keys of --config are paths into maps and lists"),
    Flag("copilot", "", refused=True, hidden=True),
    Flag("debug", "Show debugging messages of resources", short="d"),
    Flag("diff", "Show all differences in detail"),
    Flag("event-log", "Write the engine's events to this file or tcp://HOST:PORT", "text", hidden=True),
    Flag("exclude-dependents", "Also leave alone what depends on the excluded resources"),
    Flag("exec-agent", "", "text", hidden=True),
    Flag("exec-kind", "", "text", hidden=True),
    JSON,
    Flag("message", "A message for the stack's history", "text", "m"),
    Flag("neo", "", refused=True, hidden=True),
    Flag("neo-task-on-failure", "", refused=True, hidden=True),
    OUTPUT,
    Flag("override-env", "", "list", refused=True, hidden=True),
    Flag("parallel", "How many resource operations to run at once", "int", "p"),
    Flag("run-program", "Run the program to bring providers up to date"),
    Flag("show-replacement-steps", "Show each step of a replacement"),
    Flag("show-sames", "Also show resources that do not change"),
    Flag("skip-config-validation", "Do not check the configuration against the project's declarations"),
    Flag("skip-plugin-pre-install", "Accepted; plugins are never installed", ignored=True, hidden=True),
    Flag("suppress-outputs", "Do not show stack outputs"),
    Flag(
        "suppress-permalink",
        "Accepted, without effect",
        "optional",
        ignored=True,
        hidden=True,
        implied="true",
    ),
    Flag("suppress-progress", "Do not show progress"),
    Flag("target", "Only this resource; URN, may hold * and **; may be repeated", "list", "t", "targets"),
    Flag("target-dependents", "Also what depends on the targets"),
    Flag("urns", "Show full URNs", field="show_urns"),
)
_EXCLUDE: Final = Flag(
    "exclude", "Not this resource; URN, may hold * and **; may be repeated", "list", "", "excludes"
)
_EXCLUDE_X: Final = Flag("exclude", _EXCLUDE.help, "list", "x", "excludes")
_EXPECT: Final = Flag("expect-no-changes", "Fail if there are changes")
_REFRESH: Final = Flag("refresh", "Refresh the state first", "optional", "r", implied="true")
_CONTINUE: Final = Flag("continue-on-error", "Go on with independent resources when one fails")
_SKIP_PREVIEW: Final = Flag("skip-preview", "Do not show a preview first", short="f")
_PREVIEW_ONLY: Final = Flag("preview-only", "Show the preview, and stop")
_IGNORE_PROTECT: Final = Flag("ignore-protect", "", refused=True, hidden=True)
_SHOW_MORE: Final = (
    Flag("show-config", "Show the configuration"),
    Flag("show-full-output", "Do not shorten inputs and outputs"),
)
_DEPLOY: Final = (
    *_OPERATION,
    *_SHOW_MORE,
    _EXCLUDE,
    _EXPECT,
    _REFRESH,
    _IGNORE_PROTECT,
    SHOW_SECRETS,
    Flag("attach-debugger", "", "optional", refused=True, hidden=True, implied="program"),
    Flag("policy-pack", "", "commas", refused=True, hidden=True),
    Flag("policy-pack-config", "", "commas", refused=True, hidden=True),
    Flag("replace", "Replace this resource; URN, may be repeated", "list"),
    Flag("show-policy-remediations", "", ignored=True, hidden=True),
    Flag("show-reads", "Also show resources that are read"),
    Flag("target-replace", "Shorthand for --target URN --replace URN", "list"),
)
_TARGET_OR_EXCLUDE: Final = (("target", "exclude"), ("json", "output"))

OPERATIONS: Final = (
    Command(
        "preview",
        "Show what an update would do",
        "operations:preview",
        ("pre",),
        flags=(
            *_DEPLOY,
            Flag("import-file", "", "text", refused=True, hidden=True),
            Flag("save-plan", "", "text", refused=True, hidden=True),
        ),
        exclusive=_TARGET_OR_EXCLUDE,
    ),
    Command(
        "up",
        "Create or update the resources of a stack",
        "operations:up",
        ("update",),
        (Positional("template"),),
        (
            *_DEPLOY,
            _CONTINUE,
            _SKIP_PREVIEW,
            YES,
            Flag("plan", "", "text", refused=True, hidden=True),
            Flag("secrets-provider", "", "text", refused=True, hidden=True),
            Flag("strict", "", refused=True, hidden=True),
        ),
        exclusive=_TARGET_OR_EXCLUDE,
    ),
    Command(
        "refresh",
        "Bring the state up to date with what exists",
        "operations:refresh",
        flags=(
            *_OPERATION,
            _EXCLUDE_X,
            _EXPECT,
            _SKIP_PREVIEW,
            _PREVIEW_ONLY,
            YES,
            Flag("clear-pending-creates", "Forget creations that were cut off"),
            Flag("skip-pending-creates", "Leave creations that were cut off as they are", ignored=True),
            Flag("import-pending-creates", "", "list", refused=True, hidden=True),
        ),
        exclusive=_TARGET_OR_EXCLUDE,
    ),
    Command(
        "destroy",
        "Delete all resources of a stack",
        "operations:destroy",
        ("down", "dn"),
        flags=(
            *_OPERATION,
            *_SHOW_MORE,
            _EXCLUDE_X,
            _REFRESH,
            _CONTINUE,
            _SKIP_PREVIEW,
            _PREVIEW_ONLY,
            YES,
            _IGNORE_PROTECT,
            Flag("exclude-protected", "Leave protected resources and what they need"),
            Flag("remove", "Remove the stack and its configuration afterwards"),
        ),
        exclusive=_TARGET_OR_EXCLUDE,
    ),
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
                Command(
                    "get", "Show one tag", "stacks:GetTag", positionals=(Positional("name", required=True),)
                ),
                Command("list", "Show all tags", "stacks:ListTags", ("ls",), flags=(JSON, OUTPUT)),
                Command(
                    "set",
                    "Set one tag",
                    "stacks:SetTag",
                    positionals=(Positional("name", required=True), Positional("value", required=True)),
                ),
                Command(
                    "remove",
                    "Remove one tag",
                    "stacks:RemoveTag",
                    ("rm", "delete"),
                    (Positional("name", required=True),),
                ),
            ),
        ),
        Command(
            "change-secrets-provider",
            "Encrypt a stack's secrets anew",
            "state:ChangeSecretsProvider",
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
