"""Kinds of machines at AWS: launch templates, the secret of each, and who may read it."""

from __future__ import annotations

import json

import pulumi
import pytest

from tests.infrastructures.aws.graph import (
    AMI,
    EFS,
    POLICY,
    SNAPSHOT,
    TEMPLATE,
    VERSION,
    VOLUME,
    changed,
    of_aws,
    plain,
    registered,
    told,
    user_data,
)
from tests.infrastructures.aws.specs import mapping, spec
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.aws.guest import MOST_BYTES, MOST_SECRET_BYTES


def test_a_launch_template_has_tokens_for_metadata_and_encrypted_disks_alone() -> None:
    graph = registered(spec(kms_key="arn:aws:kms:eu-central-1:123456789012:key/k"))
    for template in graph.of_type(TEMPLATE).values():
        assert template.inputs["metadataOptions"] == {
            "httpEndpoint": "enabled",
            "httpTokens": "required",
            "httpPutResponseHopLimit": 1,
            "instanceMetadataTags": "enabled",
        }
        (disk,) = template.inputs["blockDeviceMappings"]
        assert disk["ebs"]["encrypted"] == "true"
        assert disk["ebs"]["kmsKeyId"].endswith("key/k")
        tagged = {each["resourceType"]: each["tags"] for each in template.inputs["tagSpecifications"]}
        assert tagged == {key: {"tidepool:stack": "dev"} for key in ("volume", "network-interface")}
    encrypted = [
        *graph.of_type(VOLUME).values(),
        *graph.of_type(EFS).values(),
        *graph.of_type(SNAPSHOT).values(),
    ]
    assert encrypted
    assert all(each.inputs["encrypted"] is True for each in encrypted)
    assert graph[f"{AMI} debian-12-cloud"].inputs["imdsSupport"] == "v2.0"


def test_keys_are_in_secrets_alone_and_a_role_reads_one_of_them() -> None:
    graph = registered(spec(), munge_key="bXkgc2VjcmV0")
    for name, each in of_aws(graph).items():
        assert each.secrets == ({"secretString"} if each.type == VERSION else frozenset()), name
        assert ("bXkgc2VjcmV0" in plain(graph, name)) == (each.type == VERSION), name
    assert "bXkgc2VjcmV0" not in user_data(graph, "cpu")
    arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:tidepool-dev-cpu-Ab"
    (statement,) = json.loads(graph[f"{POLICY} cpu"].inputs["policy"])["Statement"]
    assert statement == {
        "Effect": "Allow",
        "Action": ["secretsmanager:GetSecretValue"],
        "Resource": [arn],
    }
    assert arn in user_data(graph, "cpu")
    paths = {file["path"] for file in told(graph, "cpu")["write_files"]}
    assert {"/etc/munge/munge.key", "/root/.ssh/authorized_keys", "/etc/ssh/ssh_host_ed25519_key"} <= paths


def test_another_boot_changes_secrets_and_no_machine() -> None:
    names = changed(spec(), spec(), munge_key="YW5vdGhlcg==")
    assert names == {f"{VERSION} {kind}" for kind in ("ctl", "login", "cpu")}


def test_cores_have_one_thread_where_the_shape_says_so() -> None:
    single = mapping()
    single["fleets"][0]["shape"] = {"cpus": 4, "memory": "8GiB"}
    assert "/smt/control" in user_data(registered(ClusterSpec.model_validate(single)), "cpu")
    assert "/smt/control" not in user_data(registered(spec()), "cpu")


def test_a_fleet_that_is_called_nearly_as_login_machines_has_the_group_of_nodes() -> None:
    """By it, slurmctld reaches them."""
    described = mapping()
    described["fleets"][0]["name"] = "login-gpu"
    graph = registered(ClusterSpec.model_validate(described), {"login-gpu": "login-gpu-1"})
    groups = {name: each.inputs["vpcSecurityGroupIds"] for name, each in graph.of_type(TEMPLATE).items()}
    assert groups == {"ctl": ["controller-id"], "login": ["login-id"], "login-gpu": ["node-id"]}


def test_more_than_a_secret_holds_ends_the_program() -> None:
    with pytest.raises(pulumi.RunError, match="a secret of AWS holds 65536: put files into the image"):
        registered(spec(), munge_key="A" * 60_000)


def test_user_data_of_a_large_cluster_are_those_of_a_small_one_and_its_secrets_fit() -> None:
    """What machines are told grows with the cluster, and is in secrets; user data name one and grow with nothing."""
    small = mapping({"market": "spot"}, controller={"backup": True, "accounting": {}})
    large = {**small, "fleets": []}
    for number in range(24):
        fleet = {**small["fleets"][0], "name": f"afleetwithaname{number}", "max_nodes": 250}
        large["fleets"].append({**fleet, "subnet": f"10.77.{16 + number}.0/24"})
    graphs = [registered(ClusterSpec.model_validate(each), {}) for each in (small, large)]
    sizes = [{kind: len(user_data(graph, kind)) for kind in ("ctl", "dbd", "login")} for graph in graphs]
    assert sizes[0] == sizes[1]
    made = graphs[1].of_type(TEMPLATE)
    assert len(made) == 3 + 24
    assert all(len(user_data(graphs[1], kind).encode()) < MOST_BYTES / 2 for kind in made)
    secrets = {
        name: len(each.inputs["secretString"].encode()) for name, each in graphs[1].of_type(VERSION).items()
    }
    assert set(secrets) == set(made)
    assert max(secrets.values()) < MOST_SECRET_BYTES / 2, secrets
