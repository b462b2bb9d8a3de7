"""The operations' commands and flags: preview, up, refresh, destroy."""

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
            Flag("skip-pending-creates", "Leave creations that were cut off as they are"),
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
