"""All commands and flags that the CLI has, and what this engine does with each.

What it does not do is listed too, as refused: a person is then told what the CLI would do, and not that
there is no such thing. Names, letters and aliases are those of the CLI 3.260.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tidepool.engine.verbs.grammar import Command, Flag, Kind, Positional


def _refused_flags(names: str, kind: Kind = "bool") -> list[Flag]:
    """Flags of what only the CLI does."""
    return [Flag(name, "", kind, refused=True, hidden=True) for name in names.split()]


def _ignored_flags(names: str, kind: Kind = "bool", *, inherited: bool = False) -> list[Flag]:
    """Flags that are accepted, and have no effect here."""
    return [Flag(name, "", kind, ignored=True, hidden=True, inherited=inherited) for name in names.split()]


_GLOBAL: Final = (
    Flag("color", "Color what is shown: always, never, raw or auto", "text", inherited=True),
    Flag("cwd", "Work as if started in this folder", "text", "C", inherited=True),
    Flag("disable-integrity-checking", "Do not verify the state", inherited=True),
    Flag("emoji", "Accepted; nothing is shown with emoji", short="e", inherited=True, ignored=True),
    Flag("fully-qualify-stack-names", "Show full stack names", short="Q", inherited=True),
    Flag("logflow", "Pass the log settings on to plugins", inherited=True),
    Flag("logtostderr", "Log to stderr", inherited=True),
    Flag("non-interactive", "Never ask anything", inherited=True),
    Flag("verbose", "How much to log, 1 to 11", "int", "v", "verbosity", inherited=True),
    *_ignored_flags("memprofilerate", "int", inherited=True),
    *_ignored_flags("otel-traces profiling tracing tracing-header", "text", inherited=True),
)

#: Flags that several commands have, by name.
_SHARED: Final = {
    flag.name: flag
    for flag in (
        Flag("json", "Show the answer as JSON", short="j"),
        Flag("output", "The form of the answer: default or json", "text", choices=("default", "json")),
        Flag("stack", "The stack to work on; the selected one where not given", "text", short="s"),
        Flag("show-secrets", "Show secrets in plain text"),
        Flag("path", "Keys are paths into maps and lists"),
        Flag("yes", "Do not ask for confirmation", short="y"),
        Flag("all", "All resources of the stack"),
        Flag("show-ids", "Show the resources' IDs", short="i"),
        Flag("show-name", "Show the stack's name only"),
        Flag("show-urns", "Show the resources' URNs", short="u"),
        Flag("secrets-provider", "How secrets are encrypted: default or passphrase", "text"),
        Flag("cloud-url", "The backend's URL", "text", short="c"),
        Flag("expect-no-changes", "Fail if there are changes"),
        Flag("refresh", "Refresh the state first", "optional", "r", implied="true"),
        Flag("continue-on-error", "Go on with independent resources when one fails"),
        Flag("skip-preview", "Do not show a preview first", short="f"),
        Flag("preview-only", "Show the preview, and stop"),
    )
}


def _command(
    usage: str,
    help: str,
    *flags: Flag,
    commands: tuple[Command, ...] = (),
    exclusive: tuple[tuple[str, ...], ...] = (),
    refused: str = "",
) -> Command:
    """One command: ``NAME,ALIAS... MODULE:FUNCTION ARGUMENT... --SHARED...``, and the ``flags`` that it alone has.

    An argument that is required has a ``!``, one that takes all that are left a ``*``; a shared flag that is also one
    of the commands below has a ``^``. ``refused`` names commands below that only the CLI has.
    """
    names, *words = usage.split()
    name, *aliases = names.split(",")
    function = ""
    positionals: list[Positional] = []
    shared: list[Flag] = []
    for word in words:
        if word.startswith("--"):
            flag = _SHARED[word[2:].rstrip("^")]
            shared.append(replace(flag, inherited=True) if word.endswith("^") else flag)
        elif ":" in word:
            function = word
        else:
            positionals.append(Positional(word.rstrip("!?*"), required="!" in word, many="*" in word))
    return Command(
        name,
        help,
        function,
        tuple(aliases),
        tuple(positionals),
        (*shared, *flags),
        (*commands, *map(_refused, refused.split())),
        exclusive,
    )


def _refused(names: str) -> Command:
    name, *aliases = names.split(",")
    return Command(name, "Not supported here; the Pulumi CLI does it", aliases=tuple(aliases), refused=True)


_OPERATION: Final = (
    Flag("client", "The address of a language runtime that runs an inline program", "text", hidden=True),
    Flag("config", "Set KEY=VALUE in the stack's configuration first; may be repeated", "list", "c"),
    Flag("config-file", "Use this configuration file", "text"),
    Flag("config-path", "Keys of --config are paths into maps and lists"),
    Flag("debug", "Show debugging messages of resources", short="d"),
    Flag("diff", "Show all differences in detail"),
    Flag("event-log", "Write the engine's events to this file or tcp://HOST:PORT", "text", hidden=True),
    Flag("exclude-dependents", "Also leave alone what depends on the excluded resources"),
    Flag("exec-agent", "", "text", hidden=True),
    Flag("exec-kind", "", "text", hidden=True),
    Flag("message", "A message for the stack's history", "text", "m"),
    Flag("parallel", "How many resource operations to run at once", "int", "p"),
    Flag("run-program", "Run the program to bring providers up to date"),
    Flag("show-replacement-steps", "Show each step of a replacement"),
    Flag("show-sames", "Also show resources that do not change"),
    Flag("skip-config-validation", "Do not check the configuration against the project's declarations"),
    Flag("suppress-outputs", "Do not show stack outputs"),
    Flag("suppress-progress", "Do not show progress"),
    Flag("target", "Only this resource; URN, may hold * and **; may be repeated", "list", "t", "targets"),
    Flag("target-dependents", "Also what depends on the targets"),
    Flag("urns", "Show full URNs", field="show_urns"),
    *_refused_flags("copilot neo neo-task-on-failure"),
    *_refused_flags("override-env", "text"),
    *_ignored_flags("skip-plugin-pre-install"),
    *_ignored_flags("suppress-permalink", "optional"),
)
_EXCLUDE_X: Final = Flag(
    "exclude", "Not this resource; URN, may hold * and **; may be repeated", "list", "x", "excludes"
)
_EXCLUDE: Final = replace(_EXCLUDE_X, short="")
_SHOW_MORE: Final = (
    Flag("show-config", "Show the configuration"),
    Flag("show-full-output", "Do not shorten inputs and outputs"),
)
_DEPLOY: Final = (
    *_OPERATION,
    *_SHOW_MORE,
    _EXCLUDE,
    *_refused_flags("ignore-protect"),
    *_refused_flags("attach-debugger", "optional"),
    *_refused_flags("policy-pack policy-pack-config", "text"),
    *_ignored_flags("show-policy-remediations"),
    Flag("replace", "Replace this resource; URN, may be repeated", "list"),
    Flag("show-reads", "Also show resources that are read"),
    Flag("target-replace", "Shorthand for --target URN --replace URN", "list"),
)
_TARGET_OR_EXCLUDE: Final = (("target", "exclude"), ("json", "output"))


_OPERATIONS: Final = (
    _command(
        "preview,pre operations:preview --stack --json --output --show-secrets --expect-no-changes --refresh",
        "Show what an update would do",
        *_DEPLOY,
        *_refused_flags("import-file save-plan", "text"),
        exclusive=_TARGET_OR_EXCLUDE,
    ),
    _command(
        "up,update operations:up template? --stack --json --output --show-secrets --yes --expect-no-changes --refresh "
        "--continue-on-error --skip-preview",
        "Create or update the resources of a stack",
        *_DEPLOY,
        *_refused_flags("plan secrets-provider", "text"),
        *_refused_flags("strict"),
        exclusive=_TARGET_OR_EXCLUDE,
    ),
    _command(
        "refresh operations:refresh --stack --json --output --yes --expect-no-changes --skip-preview --preview-only",
        "Bring the state up to date with what exists",
        *_OPERATION,
        _EXCLUDE_X,
        Flag("clear-pending-creates", "Forget creations that were cut off"),
        Flag("skip-pending-creates", "Leave creations that were cut off as they are", ignored=True),
        *_refused_flags("import-pending-creates", "text"),
        exclusive=_TARGET_OR_EXCLUDE,
    ),
    _command(
        "destroy,down,dn operations:destroy --stack --json --output --yes --refresh --continue-on-error --skip-preview "
        "--preview-only",
        "Delete all resources of a stack",
        *_OPERATION,
        *_SHOW_MORE,
        _EXCLUDE_X,
        *_refused_flags("ignore-protect"),
        Flag("exclude-protected", "Leave protected resources and what they need"),
        Flag("remove", "Remove the stack and its configuration afterwards"),
        exclusive=_TARGET_OR_EXCLUDE,
    ),
)

_CONFIG: Final = _command(
    "config settings:show_all --stack^ --json --show-secrets",
    "Show or change a stack's configuration",
    Flag("config-file", "Use this configuration file", "text", inherited=True),
    Flag("open", "Accepted; there are no environments here", ignored=True, hidden=True),
    commands=(
        _command(
            "get settings:show_one key! --json --path",
            "Show one value",
            *_ignored_flags("open"),
        ),
        _command(
            "set settings:set_one key! value? --path",
            "Set one value",
            Flag("plaintext", "Keep the value in plain text", ignored=True),
            Flag("raw", "Keep the last line break of a value from stdin"),
            Flag("secret", "Encrypt the value"),
            Flag("type", "The type of the value: string, bool, int or float", "text", field="type_name"),
            exclusive=(("secret", "plaintext", "type"),),
        ),
        _command(
            "set-all settings:set_all --path",
            "Set several values",
            Flag("json", "Values as `config --json` shows them", "text", field="document"),
            Flag("plaintext", "KEY=VALUE to keep in plain text; may be repeated", "list"),
            Flag("secret", "KEY=VALUE to encrypt; may be repeated", "list"),
        ),
        _command("remove,rm,delete settings:remove_one key! --path", "Remove one value"),
        _command("remove-all,rm-all,delete-all settings:remove_all keys!* --path", "Remove several values"),
        _command(
            "copy,cp settings:copy key? --path",
            "Copy one value or all to another stack",
            Flag("dest", "The stack to copy to", "text", short="d"),
        ),
        _command(
            "refresh settings:refresh",
            "Bring the configuration back to that of the last update",
            Flag("force", "Overwrite the file without a backup", short="f"),
        ),
    ),
    refused="env",
)

_STACKS: Final = _command(
    "stack show:show --stack^ --output --show-secrets --show-ids --show-name --show-urns",
    "Show a stack, or manage stacks",
    commands=(
        _command(
            "new,init,create,setup stacks:new name? --secrets-provider",
            "Make an empty stack",
            Flag("stack", "The name of the stack", "text", short="s"),
            Flag("copy-config-from", "Copy the configuration of this stack", "text"),
            Flag("no-select", "Do not select the new stack"),
            Flag("yes", "Accepted; nothing is asked", short="y", ignored=True),
            *_refused_flags("teams", "text"),
            *_refused_flags("remote-config"),
        ),
        _command(
            "select stacks:select name? --secrets-provider",
            "Select the stack that commands work on",
            Flag("stack", "The stack to select", "text", short="s"),
            Flag("create", "Make the stack where there is none", short="c"),
        ),
        _command("unselect stacks:unselect", "Select no stack"),
        _command(
            "list,ls stacks:list_stacks --json --output",
            "List the project's stacks",
            Flag("all", "The stacks of all projects", short="a"),
            Flag("organization", "Only stacks of this organization", "text", short="o", ignored=True),
            Flag("project", "Only stacks of this project", "text", short="p"),
            Flag("tag", "Only stacks with this tag: NAME or NAME=VALUE", "text", short="t"),
        ),
        _command(
            "remove,rm,delete stacks:remove name? --stack --yes",
            "Remove a stack and its configuration",
            Flag("force", "Even if the stack still has resources, which are then forgotten", short="f"),
            Flag("preserve-config", "Keep the stack's configuration file"),
            Flag("remove-backups", "Also remove the backups of the state"),
        ),
        _command("rename stacks:rename new_name!", "Rename a stack"),
        _command(
            "get show:show --stack --output --show-secrets --show-ids --show-name --show-urns", "Show a stack"
        ),
        _command(
            "output show:show_outputs name? --json --show-secrets",
            "Show a stack's outputs, or one of them",
            Flag("shell", "As a shell script"),
        ),
        _command(
            "history,hist show:show_history --json --output --show-secrets",
            "Show a stack's past updates",
            Flag("full-dates", "Show dates in full"),
            Flag("page", "Which page of results", "int"),
            Flag("page-size", "How many results a page has; 0 for all", "int"),
            refused="events",
        ),
        _command(
            "export state:export --show-secrets",
            "Write a stack's state to stdout or a file",
            Flag("file", "Write to this file", "text"),
            Flag("version", "A past version of the state", "text"),
        ),
        _command(
            "import state:import_",
            "Read a stack's state from stdin or a file",
            Flag("file", "Read this file", "text"),
            Flag("force", "Even if the state has errors", short="f"),
        ),
        _command(
            "tag --stack^",
            "Manage a stack's tags",
            commands=(
                _command("get stacks:show_tag name!", "Show one tag"),
                _command("list,ls stacks:list_tags --json --output", "Show all tags"),
                _command("set stacks:set_tag name! value!", "Set one tag"),
                _command("remove,rm,delete stacks:remove_tag name!", "Remove one tag"),
            ),
        ),
        _command(
            "change-secrets-provider state:change_secrets_provider provider!",
            "Encrypt a stack's secrets anew",
        ),
    ),
    refused="graph drift migrate schedule webhook",
)

_STATE: Final = _command(
    "state",
    "Edit a stack's state",
    commands=(
        _command(
            "remove,rm,delete state:delete urns* --stack --yes --all",
            "Remove resources from the state, without deleting them",
            Flag("force", "Even if they are protected"),
            Flag("target-dependents", "Also what depends on them"),
        ),
        _command("protect state:protect urns* --stack --yes --all", "Protect resources"),
        _command("unprotect state:unprotect urns* --stack --yes --all", "Unprotect resources"),
    ),
    refused="edit get move rename repair taint untaint upgrade",
)

_OTHERS: Final = (
    _command("version about:version", "Show the version of Pulumi that this engine is compatible with"),
    _command(
        "about about:about --stack --json --output",
        "Show where this engine runs and what it works on",
        refused="env",
    ),
    _command(
        "whoami account:whoami --json --output",
        "Show who is logged in to where",
        Flag("verbose", "Show more", short="v"),
    ),
    _command(
        "login account:login url? --cloud-url",
        "Choose the folder where state is kept",
        Flag("local", "Keep state in the home folder", short="l"),
        *_ignored_flags("interactive insecure"),
        *_refused_flags("default-org oidc-token oidc-org oidc-team oidc-user oidc-expiration", "text"),
    ),
    _command(
        "logout account:logout url? --cloud-url",
        "Forget the chosen backend",
        Flag("local", "The home folder", short="l"),
        Flag("all", "All backends"),
    ),
    _command("cancel stacks:cancel name? --stack --yes", "Take away the locks of a stack"),
    _command(
        "plugin",
        "Show plugins",
        commands=(
            _command(
                "list,ls account:list_plugins --json --output",
                "List the installed plugins",
                *_refused_flags("project"),
            ),
        ),
        refused="install remove,rm run",
    ),
)

#: What only the CLI does.
_CLI_ONLY: Final = (
    "api console convert convert-trace deployment do env esc events gen-completion gen-markdown generate-cli-spec "
    "import insights install logs neo new org package policy project replay-events schema template view-trace watch ai"
)

ROOT: Final = _command(
    "pulumi about:root",
    "The embedded Pulumi engine",
    *_GLOBAL,
    Flag("version", "Show the version"),
    commands=(*_OPERATIONS, _CONFIG, _STACKS, _STATE, *_OTHERS),
    refused=_CLI_ONLY,
)
