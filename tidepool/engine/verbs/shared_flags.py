"""Flags that several commands have."""

from __future__ import annotations

from typing import Final

from tidepool.engine.verbs.grammar import Flag

STACK: Final = Flag("stack", "The stack to work on; the selected one where not given", "text", "s")
STACK_INHERITED: Final = Flag(
    "stack", "The stack to work on; the selected one where not given", "text", "s", inherited=True
)
JSON: Final = Flag("json", "Show the answer as JSON", short="j")
OUTPUT: Final = Flag("output", "The form of the answer: default or json", "text", choices=("default", "json"))
YES: Final = Flag("yes", "Do not ask for confirmation", short="y")
SHOW_SECRETS: Final = Flag("show-secrets", "Show secrets in plain text")
SECRETS_PROVIDER: Final = Flag("secrets-provider", "How secrets are encrypted: default or passphrase", "text")
