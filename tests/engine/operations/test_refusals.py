"""What is not known or not supported is refused by name, before anything changes."""

from __future__ import annotations

import pytest

from .stacks import Stack

COMMANDS = {
    "an unknown flag": (["up", "--frobnicate"], "frobnicate"),
    "a flag that is nearly right": (["up", "--skip-previw"], "--skip-preview"),
    "an unknown verb": (["frobnicate"], "frobnicate"),
    "an unknown verb of stacks": (["stack", "frobnicate"], "frobnicate"),
    "a value of the wrong kind": (["up", "--parallel", "many"], "many"),
    "policies": (["policy", "ls"], "policy"),
    "a policy pack": (["up", "--policy-pack", "here"], "policy-pack"),
    "an import": (["import", "fake:index:Item", "a", "b"], "import"),
    "a plan to save": (["preview", "--save-plan", "plan.json"], "save-plan"),
    "a plan to follow": (["up", "--plan", "plan.json"], "plan"),
    "another place": (["up", "--remote"], "remote"),
    "a new project": (["new", "python"], "new"),
    "an unknown stack": (["stack", "select", "nowhere"], "no stack named 'nowhere' found"),
    "a target that is not there": (
        ["destroy", "--target", "urn:pulumi:dev::ops::fake:index:Item::none"],
        "Item::none",
    ),
}


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_command_is_refused(stack: Stack, kind: str) -> None:
    words, named = COMMANDS[kind]
    before = stack.files()
    ran = stack.run(*words)
    assert ran.code != 0
    assert named in ran.err + ran.out
    assert ran.has_no_engine_frames()
    assert "Traceback" not in ran.text
    assert stack.files() == before
    assert stack.world() == {}


FEATURES = {
    "envVarMappings": (
        'fake_sdk.Provider("p", opts=pulumi.ResourceOptions(env_var_mappings={"A": "B"}))',
        "envVarMappings",
    ),
    "a parameterized package": (
        (
            "from pulumi.runtime.proto import resource_pb2 as pb\n"
            "pulumi.runtime.settings.get_monitor().RegisterPackage(pb.RegisterPackageRequest("
            'name="terraform", parameterization=pb.Parameterization(name="sub", version="1.0.0", value=b"x")))'
        ),
        "parameterized",
    ),
    "another release": (
        'pulumi.require_pulumi_version("=3.1.2")',
        'does not satisfy the version range "=3.1.2"',
    ),
    "a missing plugin": ('pulumi.CustomResource("nowhere:index:Thing", "t", {})', "nowhere"),
}


@pytest.mark.parametrize("kind", FEATURES)
def test_a_feature_is_refused_in_the_preview(stack: Stack, kind: str) -> None:
    statement, named = FEATURES[kind]
    stack.write(f'import pulumi, fake_sdk\nfrom fake_sdk import Item\nItem("r0", value=0)\n{statement}\n')
    before = stack.files()
    ran = stack.run("up", "--yes")
    assert ran.code != 0
    assert named in ran.text
    assert ran.has_no_engine_frames()
    assert stack.files() == before
    assert stack.world() == {}


@pytest.mark.parametrize("kind", FEATURES)
def test_a_feature_is_refused_without_a_preview(stack: Stack, kind: str) -> None:
    """What was registered before it stands, and is known; the operation fails."""
    statement, named = FEATURES[kind]
    stack.write(f'import pulumi, fake_sdk\nfrom fake_sdk import Item\nItem("r0", value=0)\n{statement}\n')
    ran = stack.run("up")
    assert ran.code != 0
    assert named in ran.text
    assert ran.has_no_engine_frames()
    assert stack.world().keys() == stack.states().keys() <= {"r0-1"}
    assert stack.pending() == []
    assert not stack.locked()


def test_a_wrong_passphrase_says_so(stack: Stack) -> None:
    stack.up()
    assert stack.run("config", "set", "--secret", "key", "hidden", "--stack", "dev").code == 0
    before, effects = stack.files(), stack.effects()
    for verb in ("up", "preview", "refresh", "destroy"):
        ran = stack.run(verb, COUNT="4", PULUMI_CONFIG_PASSPHRASE="wrong")
        assert ran.code != 0
        assert "incorrect passphrase" in ran.err
        assert not ran.out, "nothing has begun"
        assert ran.has_no_engine_frames()
        assert stack.files() == before
    assert stack.effects() == effects


def test_a_wrong_passphrase_does_not_spoil_what_is_to_be_recovered(stack: Stack) -> None:
    stack.write(
        "import fake_sdk, pulumi\nfor i in range(6): fake_sdk.Item(f'r{i}', value=i, secret=pulumi.Output.secret('hid'+'den'))\n"
    )
    assert stack.run("up", FAKE_SIGNAL="create:4:after:KILL").code == -9
    before = stack.file.read_bytes(), stack.journal.read_bytes()
    ran = stack.run("up", PULUMI_CONFIG_PASSPHRASE="wrong")
    assert ran.code != 0
    assert "passphrase" in ran.err
    assert ran.has_no_engine_frames()
    assert (stack.file.read_bytes(), stack.journal.read_bytes()) == before
    stack.up()
    stack.check_exact(6)
    everything = b"".join(stack.files().values())
    assert b"hidden" not in everything
