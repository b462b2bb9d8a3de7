"""Command lines whose answers are compared with what the Pulumi CLI answered.

A scenario runs in a folder of its own, ``$DIR``: the project in ``$DIR/project``, the state in
``$DIR/state``, Pulumi's home in ``$DIR/home``. Its steps are run in order; each is one of

- ``run``: a command line; stdout, stderr and the exit code are recorded;
- ``write``: a file and its text;
- ``read``: a file whose text is recorded (None where there is no such file).

``record.py`` makes the recordings; ``test_recorded.py`` runs the same steps with the engine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Step:
    """One step: exactly one of ``run``, ``write`` and ``read`` is set."""

    run: tuple[str, ...] | None = None
    write: tuple[str, str] | None = None
    read: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Scenario:
    """Files of the project (``$DIR/project``) and the steps."""

    name: str
    files: Mapping[str, str]
    steps: tuple[Step, ...]


def run(line: str, *more: str, **env: str) -> Step:
    """A command line, split at blanks; ``more`` holds arguments with blanks in them."""
    return Step(run=(*line.split(), *more), env=env)


def write(path: str, text: str) -> Step:
    """A file of ``$DIR``."""
    return Step(write=(path, text))


def read(path: str) -> Step:
    """Record a file of ``$DIR``."""
    return Step(read=path)


PROJECT = "name: shop\nruntime: python\n"
PLAIN = {"Pulumi.yaml": PROJECT}

_VERSION = "v3.260.0"
#: The CLI refuses a deployment whose magic is not the hash of its version.
_MAGIC = hashlib.sha256(_VERSION.encode()).hexdigest()
_URN = "urn:pulumi:dev::shop::pulumi:pulumi:Stack::shop-dev"


def _resource(name: str, **more: object) -> dict[str, object]:
    return {
        "urn": f"urn:pulumi:dev::shop::pkg:index:Thing::{name}",
        "custom": True,
        "id": f"id-{name}",
        "type": "pkg:index:Thing",
        "parent": _URN,
        **more,
    }


DEPLOYMENT = json.dumps(
    {
        "version": 3,
        "deployment": {
            "manifest": {"time": "2024-05-01T10:00:00Z", "magic": _MAGIC, "version": _VERSION},
            "secrets_providers": {
                "type": "passphrase",
                "state": {"salt": "v1:8ErHZ1Cyxl4=:v1:8cPXfIcrpCAvLVoj:QRPHPtDFPtBHQQBckqIZLbO4cK3W2w=="},
            },
            "resources": [
                {
                    "urn": _URN,
                    "custom": False,
                    "type": "pulumi:pulumi:Stack",
                    "outputs": {
                        "text": "a <b> & c",
                        "number": 42,
                        "ratio": 0.5,
                        "yes": True,
                        "nothing": None,
                        "list": [1, "two", {"three": 3}],
                        "object": {"b": 1, "a": "it's"},
                    },
                },
                _resource("one", protect=True),
                _resource("two", dependencies=["urn:pulumi:dev::shop::pkg:index:Thing::one"]),
            ],
            "metadata": {},
        },
    }
)

DEPLOYMENT_WITHOUT_SECRETS = json.dumps(
    {
        "version": 3,
        "deployment": {
            k: v for k, v in json.loads(DEPLOYMENT)["deployment"].items() if k != "secrets_providers"
        },
    }
)

HISTORY = [
    {
        "kind": "update",
        "startTime": 1714557600,
        "message": "first",
        "environment": {"exec.kind": "cli", "git.author": "me"},
        "config": {
            "shop:name": "n",
            "shop:hidden": {"secure": "v1:AAAA:BBBB"},
            "shop:obj": {"object": {"a": 1}},
        },
        "version": 0,
        "result": "succeeded",
        "endTime": 1714557603,
        "resourceChanges": {"create": 3},
    },
    {
        "kind": "destroy",
        "startTime": 1714557700,
        "message": "",
        "environment": {},
        "config": {},
        "version": 0,
        "result": "failed",
        "endTime": 1714557710,
        "resourceChanges": {"same": 1, "delete": 2},
    },
]

PASS = "PULUMI_CONFIG_PASSPHRASE"
#: The value that stands for a variable which is not there.
UNSET = "$UNSET"

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "basics",
        PLAIN,
        (
            run("version"),
            run("--version"),
            run("whoami --json", USER="me", LOGNAME="me"),
            run("--non-interactive version"),
            run("version --nope"),
            run("version extra"),
            run("nope"),
            run("stack nope"),
            run("stck ls"),
            run("stack ls --jsn"),
            run("stack init --stack"),
            run("stack history --page x"),
            run("stack history --page=x"),
            run("stack ls --json=maybe"),
            run("up --parallel x"),
            run("stack ls -z"),
            run("stack rename"),
            run("stack init a b"),
            run("config get"),
            run("config set"),
            run("--color blue stack ls"),
            run("-C nowhere stack ls"),
            run("stack ls --output yaml"),
        ),
    ),
    Scenario(
        "stacks",
        PLAIN,
        (
            run("stack ls --json"),
            run("stack ls"),
            run("stack init dev"),
            read("project/Pulumi.dev.yaml"),
            run("stack init dev"),
            run("stack init"),
            run("stack init two --stack three"),
            run("stack init", "bad name"),
            run("stack init organization/shop/qa --no-select"),
            run("stack init organization/other/x --no-select"),
            run("stack init acme/shop/x --no-select"),
            run("stack init x --secrets-provider nope"),
            run("stack init x --teams a"),
            run("stack ls --json"),
            run("stack ls --json --all"),
            run("stack ls -j -p other"),
            run("stack ls"),
            run("stack ls --all"),
            run("stack ls --json --fully-qualify-stack-names"),
            run("stack select qa"),
            run("stack ls --json"),
            run("stack select"),
            run("stack select nope"),
            run("stack select organization/shop/nope"),
            run("stack select --stack dev"),
            run("stack select -c fresh"),
            run("stack select fresh --stack fresh"),
            run("stack --show-name"),
            run("stack --show-name -Q"),
            run("stack --show-name -s qa"),
            run("stack"),
            run("stack --stack nope"),
            run("stack rename organization/shop/newer"),
            run("stack rename qa"),
            run("stack rename", "bad name"),
            run("stack --show-name"),
            run("stack rm nope --yes"),
            run("stack rm newer"),
            run("stack rm newer --yes"),
            run("stack --show-name"),
            run("stack"),
            run("config"),
            run("stack output"),
            run("stack unselect"),
            run("stack select dev"),
            run("stack unselect"),
            run("stack unselect"),
            run("stack rm --yes"),
            run("stack rm dev --yes --preserve-config"),
            read("project/Pulumi.dev.yaml"),
            run("stack --show-name", PULUMI_STACK="qa"),
            run("stack --show-name", PULUMI_STACK="gone"),
        ),
    ),
    Scenario(
        "nowhere",
        {},
        (
            run("stack ls"),
            run("stack ls --all --json"),
            run("stack init dev"),
            run("stack init organization/p/dev"),
            run("stack select dev"),
            run("stack select organization/p/dev"),
            run("stack output --stack organization/p/dev --json"),
            run("config"),
            run("config set a b"),
            run("stack"),
            run("stack rm organization/p/dev --yes"),
            run("whoami", USER="me", LOGNAME="me"),
        ),
    ),
    Scenario(
        "projects",
        {},
        (
            write("project/Pulumi.yaml", "runtime: python\n"),
            run("stack ls"),
            write("project/Pulumi.yaml", "nme: x\nruntime: python\n"),
            run("stack ls"),
            write("project/Pulumi.yaml", "name: ''\nruntime: python\n"),
            run("stack ls"),
            write("project/Pulumi.yaml", "name: x\n"),
            run("stack ls --json"),
            write("project/Pulumi.yaml", "name: x\nruntime: 3\n"),
            run("stack ls --json"),
            write("project/Pulumi.yaml", "name: x\nruntime: python\nbackend: {urll: x}\n"),
            run("stack ls --json"),
            write("project/Pulumi.yaml", "- a\n"),
            run("stack ls --json"),
            write("project/Pulumi.yaml", "name: x\nruntime: python\nother: 3\n"),
            run("stack ls --json"),
            write("project/Pulumi.yaml", "name: [\n"),
            run("stack ls --json"),
            write("project/Pulumi.yaml", "name: x\nruntime: python\nconfig:\n  a: {type: array}\n"),
            run("stack ls --json"),
            write(
                "project/Pulumi.yaml",
                "name: x\nruntime: python\nconfig:\n  a: {type: integer, default: b}\n",
            ),
            run("stack ls --json"),
            write("project/Pulumi.yaml", "name: x\nruntime: python\nconfig:\n  a: {typ: integer}\n"),
            run("stack ls --json"),
            write("project/Pulumi.yaml", "name: x\nruntime: python\nconfig:\n  'aws:r': {default: a}\n"),
            run("stack ls --json"),
            write("project/Pulumi.yaml", "name: x\nruntime: python\nconfig:\n  'aws:r': {type: string}\n"),
            run("stack ls --json"),
            write("project/Pulumi.yaml", "name: x\nruntime: python\nconfig:\n  a: {value: 1, default: 2}\n"),
            run("stack ls --json"),
            write("project/Pulumi.yaml", "name: x\nruntime: python\nconfig: cfg\nstackConfigDir: b\n"),
            run("stack ls --json"),
            write("project/Pulumi.yaml", "name: x\nruntime: python\nconfig: cfg\n"),
            run("stack init dev"),
            run("config set a b"),
            read("project/cfg/Pulumi.dev.yaml"),
        ),
    ),
    Scenario(
        "config",
        PLAIN,
        (
            run("stack init dev"),
            run("config"),
            run("config --json"),
            run("config set name", "a value"),
            run("config set aws:region eu"),
            run("config set empty --", ""),
            run("config set dash -- -x"),
            run("config set a:b:c v"),
            run("config set a:config:c v"),
            run("config set number 42"),
            run("config set flag true"),
            run("config set --path outer.inner v"),
            run("config set --path outer.count 7"),
            run("config set --path outer.flag true"),
            run("config set --path outer.zero 007"),
            run("config set --path outer.text 7 --type string"),
            run("config set typed 7 --type int"),
            run("config set typedf 7.5 --type float"),
            run("config set typedb yes --type bool"),
            run("config set typed x --type int"),
            run("config set typed 7 --type nope"),
            run("config set typed 7 --type int --secret"),
            run("config set --path names[0] a"),
            run("config set --path names[1] b"),
            run("config set --path names[3] c"),
            run("config set --path names[x] c"),
            run("config set --path names.x c"),
            run("config set --path outer.inner.more c"),
            run("config set --path", '["a.b"].c', "d"),
            run("config set --path a..b c"),
            run("config set --path a[ c"),
            run("config set --path deep.secure x"),
            run("config set password", "correct horse battery staple 9x!Qz#"),
            run("config set password --plaintext", "correct horse battery staple 9x!Qz#"),
            read("project/Pulumi.dev.yaml"),
            run("config"),
            run("config --json"),
            run("config get name"),
            run("config get name --json"),
            run("config get shop:name"),
            run("config get aws:region"),
            run("config get outer"),
            run("config get outer --json"),
            run("config get --path outer.inner"),
            run("config get --path outer.nope"),
            run("config get --path names[1] --json"),
            run("config get nope"),
            run("config get aws:nope"),
            run("config get a:b:c"),
            run("config get flag --json"),
            run("config rm name"),
            run("config rm nope"),
            run("config rm --path names[0]"),
            run("config rm --path outer.inner"),
            run("config rm-all aws:region number"),
            run("config rm-all --path outer.count"),
            run("config set-all --plaintext x=1 --plaintext y=a=b"),
            run("config set-all --path --plaintext p.q=1 --plaintext p.r=z"),
            run("config set-all --plaintext nope"),
            run("config set-all --json", '{"shop:j": {"value": "v", "secret": false}}'),
            run(
                "config set-all --json",
                '{"jo": {"value": "{\\"a\\":1}", "objectValue": {"a": 1}, "secret": false}}',
            ),
            run("config set-all --json", '{"j": {"secret": false}}'),
            run("config set-all --json", "nope"),
            run("config set-all --json {} --path"),
            run("config set-all"),
            read("project/Pulumi.dev.yaml"),
            run("config --json"),
            run("config --config-file", "other.yaml"),
            run("config set k v --config-file", "other.yaml"),
            read("project/other.yaml"),
            run("config --stack nope"),
            run("config cp name --dest nope"),
            run("stack init other --copy-config-from dev"),
            read("project/Pulumi.other.yaml"),
            run("config refresh"),
            run("config refresh --force"),
        ),
    ),
    Scenario(
        "secrets",
        PLAIN,
        (
            run("stack init dev", **{PASS: "pass"}),
            read("project/Pulumi.dev.yaml"),
            run("config set --secret token s3cr3t", **{PASS: "pass"}),
            run("config set --secret --path outer.token s3cr3t", **{PASS: "pass"}),
            run("config set --path outer.plain p", **{PASS: "pass"}),
            run("config set-all --secret a=b --plaintext c=d", **{PASS: "pass"}),
            run(
                "config set-all --json",
                '{"jo": {"value": "{\\"a\\":1}", "objectValue": {"a": 1}, "secret": true}}',
                **{PASS: "pass"},
            ),
            read("project/Pulumi.dev.yaml"),
            run("config", **{PASS: "pass"}),
            run("config --json", **{PASS: "pass"}),
            run("config --show-secrets", **{PASS: "pass"}),
            run("config --show-secrets --json", **{PASS: "pass"}),
            run("config get token", **{PASS: "pass"}),
            run("config get token --json", **{PASS: "pass"}),
            run("config get outer --json", **{PASS: "pass"}),
            run("config get --path outer.token --json", **{PASS: "pass"}),
            run("config get --path outer.plain --json", **{PASS: "pass"}),
            run("config --json", **{PASS: "wrong"}),
            run("config --json --show-secrets", **{PASS: "wrong"}),
            run("config get token", **{PASS: "wrong"}),
            run("config set --secret token x", **{PASS: "wrong"}),
            run("config get token", **{PASS: UNSET}),
            run("config set --secret token x", **{PASS: UNSET}),
            run("config get c", **{PASS: UNSET}),
            write("passphrase.txt", "pass\n"),
            run("config get token", PULUMI_CONFIG_PASSPHRASE_FILE="$DIR/passphrase.txt", **{PASS: UNSET}),
            run("config get token", PULUMI_CONFIG_PASSPHRASE_FILE="$DIR/nope.txt", **{PASS: UNSET}),
            run("stack init unlocked", **{PASS: UNSET}),
            run("stack init empty", **{PASS: ""}),
            run("config set --secret x y --stack empty", **{PASS: ""}),
            run("config get x --stack empty", **{PASS: ""}),
            run("stack export", **{PASS: "pass"}),
            run("stack init other --copy-config-from dev", **{PASS: "pass"}),
            run("config --stack other --show-secrets --json", **{PASS: "pass"}),
            run("stack select dev"),
            run("config cp token --dest other", **{PASS: "pass"}),
            run("config cp --dest other", **{PASS: "pass"}),
            run("config cp --path outer.plain --dest other", **{PASS: "pass"}),
            run("config --stack other --show-secrets --json", **{PASS: "pass"}),
            run("stack change-secrets-provider nope"),
        ),
    ),
    Scenario(
        "declared",
        {
            "Pulumi.yaml": PROJECT
            + "config:\n"
            + "  size: small\n"
            + "  count: {type: integer, default: 3}\n"
            + "  tags: {type: array, items: {type: string}, default: [a, b]}\n"
            + "  needed: {type: string}\n"
            + "  nothere: {type: boolean}\n"
            + "  hidden: {type: string, secret: true, default: x}\n"
            + "  aws:region: us-west-2\n"
            + "  on: true\n"
        },
        (
            run("stack init dev"),
            run("config --json"),
            run("config"),
            run("config get count --json"),
            run("config get tags"),
            run("config get --path tags[1]"),
            run("config get needed"),
            run("preview"),
            run("config set needed x"),
            run("preview"),
            run("config set nothere maybe"),
            run("preview"),
            run("config set nothere true"),
            run("config set count many"),
            run("preview"),
            run("config set count 4"),
            run("preview"),
            read("project/Pulumi.dev.yaml"),
        ),
    ),
    Scenario(
        "yaml",
        PLAIN,
        (
            run("stack init dev"),
            write(
                "project/Pulumi.dev.yaml",
                "# of the whole file\n"
                "config:\n"
                "  # about a\n"
                "  shop:a: 1 # beside a\n"
                "  shop:b: 'quoted'\n"
                "\n"
                "  # about c\n"
                "  c: yes\n"
                "  shop:none:\n"
                "  shop:obj:\n"
                "    # inner\n"
                "    x: 1.50\n"
                "    y: [1, 2]\n"
                "    when: 2020-01-02\n",
            ),
            run("config --json"),
            run("config set d 4"),
            read("project/Pulumi.dev.yaml"),
            run("config set shop:a 2"),
            run("config set c no"),
            run("config rm b"),
            run("config set --path obj.y[2] 3"),
            read("project/Pulumi.dev.yaml"),
            write("project/Pulumi.dev.yaml", "environment:\n  - base\nconfig:\n  shop:a: 1\n"),
            run("config --json"),
            run("config get a"),
            write("project/Pulumi.dev.yaml", "config: [\n"),
            run("config --json"),
            write("project/Pulumi.dev.yaml", "config:\n  a:b:c:d: 1\n"),
            run("config --json"),
            write("project/Pulumi.dev.yaml", "[]\n"),
            run("config --json"),
            write("project/Pulumi.dev.yaml", ""),
            run("config --json"),
            run("config set x y"),
            read("project/Pulumi.dev.yaml"),
            run("config rm x"),
            read("project/Pulumi.dev.yaml"),
        ),
    ),
    Scenario(
        "state",
        PLAIN,
        (
            run("stack init dev"),
            run("stack output"),
            run("stack output --json"),
            run("stack history"),
            run("stack history --json"),
            run("stack export"),
            write("d.json", DEPLOYMENT_WITHOUT_SECRETS),
            write("bad.json", "{"),
            write("v9.json", '{"version": 9, "deployment": {}}'),
            write("alien.json", DEPLOYMENT_WITHOUT_SECRETS.replace("pulumi:dev", "pulumi:prod")),
            run("stack import --file $DIR/nope.json"),
            run("stack import --file $DIR/bad.json"),
            run("stack import --file $DIR/v9.json"),
            run("stack import --file $DIR/alien.json"),
            run("stack import --file $DIR/d.json"),
            run("stack ls --json"),
            run("stack"),
            run("stack -i -u"),
            run("stack --output json"),
            run("stack output"),
            run("stack output --json"),
            run("stack output --json --show-secrets"),
            run("stack output --shell"),
            run("stack output --shell --json"),
            run("stack output text"),
            run("stack output text --json"),
            run("stack output list"),
            run("stack output list --json"),
            run("stack output object"),
            run("stack output object --shell"),
            run("stack output nope"),
            run("stack output number -j"),
            run("stack export"),
            run("stack export --show-secrets"),
            run("stack export --version 3"),
            run("stack export --file $DIR/out.json"),
            read("out.json"),
            run("stack rm dev --yes"),
            run("state unprotect --all --yes"),
            run("state protect", "urn:pulumi:dev::shop::pkg:index:Thing::two", "--yes"),
            run("state delete", "urn:pulumi:dev::shop::pkg:index:Thing::two", "--yes"),
            run("state unprotect", "urn:pulumi:dev::shop::pkg:index:Thing::two", "--yes"),
            run("state delete", "urn:pulumi:dev::shop::pkg:index:Thing::nope", "--yes"),
            run("state delete", "urn:pulumi:dev::shop::pkg:index:Thing::one", "--yes"),
            run("state delete", "urn:pulumi:dev::shop::pkg:index:Thing::two", "--yes"),
            run("state delete", "urn:pulumi:dev::shop::pkg:index:Thing::one"),
            run("state unprotect", "urn:pulumi:dev::shop::pkg:index:Thing::one"),
            run("stack rename prod"),
            run("stack export"),
            run("stack rm prod --yes --force"),
        ),
    ),
    Scenario(
        "history",
        PLAIN,
        (
            run("stack init dev"),
            write(
                "state/.pulumi/history/shop/dev/dev-1714557600000000000.history.json",
                json.dumps(HISTORY[0]),
            ),
            write(
                "state/.pulumi/history/shop/dev/dev-1714557700000000000.history.json",
                json.dumps(HISTORY[1]),
            ),
            write(
                "state/.pulumi/history/shop/dev/dev-1714557700000000000.checkpoint.json",
                json.dumps({"version": 3, "checkpoint": {"stack": "organization/shop/dev", "latest": None}}),
            ),
            run("stack history --json"),
            run("stack history --json --page-size 1 --page 1"),
            run("stack history --json --page-size 1 --page 2"),
            run("stack history --json --page-size 1 --page 3"),
            run("stack history --page-size 1 --page 3"),
            run("stack history --json --page-size 0"),
            run("stack history --json --show-secrets"),
            run("stack history --full-dates", TZ="UTC"),
            run("stack ls --json"),
        ),
    ),
    Scenario(
        "tags",
        PLAIN,
        (
            run("stack init dev"),
            run("stack tag ls --json"),
            run("stack tag ls"),
            run("stack tag set owner me"),
            run("stack tag set", "with space", "v"),
            run("stack tag get owner"),
            run("stack tag get nope"),
            run("stack tag ls --json"),
            run("stack tag ls"),
            run("stack ls --tag owner=me --json"),
            run("stack ls --tag owner --json"),
            run("stack ls --tag owner=you --json"),
            run("stack ls --tag nope --json"),
            run("stack tag rm owner"),
            run("stack tag rm nope"),
            run("stack tag set owner"),
            run("stack tag ls --json --stack nope"),
        ),
    ),
    Scenario(
        "operations",
        PLAIN,
        (
            run("stack init dev"),
            run("up"),
            run("destroy"),
            run("refresh"),
            run("up --yes --nope"),
            run("up --yes --stack nope"),
            run("preview --stack nope"),
            run("cancel"),
            run("cancel --yes"),
            run("cancel dev --yes"),
            run("cancel nope --yes"),
            run("up --yes --refresh=maybe"),
            run("up --yes --target x --exclude y"),
            run("destroy --yes --target x --exclude-protected"),
            run("refresh --yes --import-pending-creates x"),
            run("up --yes --continue-on-error --strict --skip-preview"),
            run("preview --save-plan"),
            run("up --yes --color nope"),
        ),
    ),
    Scenario(
        "backends",
        {"Pulumi.yaml": PROJECT},
        (
            run("whoami --json", PULUMI_BACKEND_URL="file://$DIR/missing", USER="me"),
            run("stack ls", PULUMI_BACKEND_URL="file://$DIR/missing"),
            run("login file://$DIR/state", USER="me"),
            run("stack init a", PULUMI_BACKEND_URL=""),
            run("stack ls --json", PULUMI_BACKEND_URL=""),
            run("login nope://x"),
            run("logout", USER="me"),
            run("login --local --cloud-url x"),
            run("login a b"),
        ),
    ),
)
