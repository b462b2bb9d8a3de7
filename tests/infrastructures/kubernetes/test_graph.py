"""What a cluster on Kubernetes registers: types, inputs, parents, dependencies, secrets, and what a change comes to."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from ipaddress import IPv4Address
from typing import Any

import pulumi
import pytest

from tests.infrastructures.kubernetes.graph import (
    ACCESS,
    ANSWERS,
    BINDING,
    BUDGET,
    CLAIM,
    MACHINE,
    METAL3,
    NAMESPACE,
    PLACE,
    POD,
    POLICY,
    PROVIDER,
    ROLE,
    SECRET,
    connection,
    of_kubernetes,
    registered,
)
from tests.infrastructures.kubernetes.specs import FIREWALL, GPUS, TUNED, VOLUMES, mapping, of_machines, spec
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.registry import infrastructures_of

FLEET = "tidepool:components:ComputeFleet cpu"
METAL = "tidepool:components:ComputeFleet metal"
CONTROLLER = "tidepool:components:SlurmController physics"


def changed(before: ClusterSpec, after: ClusterSpec, **more: Any) -> set[str]:
    """What an `up` from one to the other would look at again."""
    old, new = registered(before), registered(after, **more)
    assert set(old.resources) == set(new.resources)
    return {name for name in old.resources if old[name].inputs != new[name].inputs}


def test_all_of_kubernetes_that_a_cluster_is() -> None:
    graph = registered(spec())
    assert {name: each.parent for name, each in of_kubernetes(graph).items()} == {
        f"{NAMESPACE} kubernetes": "",
        f"{ROLE} scaler": "",
        f"{BINDING} scaler": "",
        f"{POLICY} machines": "",
        "kubernetes:core/v1:Service machines": "",
        "kubernetes:core/v1:ServiceAccount machine": "",
        f"{BUDGET} busy-cpu": "",
        f"{BUDGET} own": "",
        f"{CLAIM} slurmctld": CONTROLLER,
        f"{SECRET} ctl": CONTROLLER,
        f"{POD} ctl": CONTROLLER,
        f"{SECRET} login": CONTROLLER,
        f"{POD} login-1": CONTROLLER,
        f"{SECRET} cpu": FLEET,
        f"{POD} cpu-1": FLEET,
        f"{POD} cpu-2": FLEET,
    }
    assert {each.provider for each in of_kubernetes(graph).values()} == {f"{PROVIDER} kubernetes"}
    assert graph["tidepool:image:Image debian-12"].inputs["forms"] == ["oci"]


def test_urns_are_what_they_were() -> None:
    """Another name or type here is a new machine for everybody who has one: give it an alias."""
    graph = registered(of_machines())
    above = "urn:pulumi:dev::cluster::tidepool:components:ComputeFleet"
    assert graph[f"{POD} cpu-1"].urn == f"{above}${POD}::cpu-1"
    assert graph[f"{SECRET} cpu"].urn == f"{above}${SECRET}::cpu"
    assert graph[f"{MACHINE} metal-1"].urn == f"{above}${MACHINE}::metal-1"
    assert graph[f"{ANSWERS} cpu-1"].urn == f"{above}${ANSWERS}::cpu-1"


def test_nothing_is_made_before_the_place_is_known_to_have_what_is_asked_of_it() -> None:
    graph = registered(spec(TUNED, gres=GPUS))
    assert graph[f"{PROVIDER} kubernetes"].depends_on == {f"{PLACE} kubernetes"}
    place = graph[f"{PLACE} kubernetes"].inputs["demands"]
    assert {
        key: place[key] for key in ("stack", "kubeconfig", "path", "namespace", "ownNamespace", "uses")
    } == {
        "stack": "dev",
        "kubeconfig": "/etc/tidepool/kubeconfig",
        "path": "controller.infrastructure.options",
        "namespace": "physics",
        "ownNamespace": True,
        "uses": ["pods", "claims"],
    }
    own, fleet = place["demands"]
    assert (own["path"], own["names"]) == ("controller.infrastructure.options.machines", "ctl,login-1")
    assert fleet == {
        "path": "fleets[0].infrastructures[0].options",
        "names": "cpu-[1-4]",
        "kind": "pods",
        "cpuMilli": 4000,
        "memoryMib": 4608,
        "architecture": "amd64",
        "nodeSelector": {"site/rack": "r7"},
        "extended": {"nvidia.com/gpu": 2, "rdma/hca": 1},
    }


def test_a_machine_is_a_pod_of_the_image_under_the_name_and_the_address_of_its_slot() -> None:
    pod = registered(spec())[f"{POD} cpu-2"].inputs
    assert pod["metadata"] == {
        "name": "cpu-2",
        "namespace": "physics",
        "labels": {
            "tidepool/stack": "dev",
            "tidepool/fleet": "cpu",
            "tidepool/node": "cpu-2",
            "tidepool/address": "10.77.10.2",
        },
        "annotations": {
            "cni.projectcalico.org/ipAddrs": '["10.77.10.2"]',
            "pulumi.com/skipAwait": "true",
        },
    }
    (container,) = pod["spec"]["containers"]
    assert container["image"] == f"docker.io/tidepool/debian-12:{'d' * 12}"
    assert pod["spec"]["hostname"] == "cpu-2"
    assert container["command"] == ["/bin/sh", "/run/tidepool/boot/start"]
    # Guaranteed: whole processors, and memory for daemons beside what jobs are given.
    assert container["resources"] == {
        "requests": {"cpu": "4", "memory": "4352Mi"},
        "limits": {"cpu": "4", "memory": "4352Mi"},
    }
    volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
    assert volumes["boot"]["secret"] == {"secretName": "boot-cpu", "defaultMode": 0o400}
    assert volumes["volume-0"]["nfs"] == {"server": "nas", "path": "/export/home"}
    assert {"name": "volume-0", "mountPath": "/home"} in container["volumeMounts"]


@pytest.mark.parametrize(
    "more",
    [{"login_machines": 16}, {"login_machines": 0}, {"backup": True}, {"accounting": {}}],
)
def test_more_or_fewer_of_the_clusters_own_machines_end_no_other_pod(more: dict[str, Any]) -> None:
    database = {"database": "nas:/export/db"} if "accounting" in more else {}
    after = registered(spec(controller=more, volumes={**VOLUMES, **database})).of_type(POD)
    pods = registered(spec()).of_type(POD)
    assert pods.keys() != after.keys()
    stay = pods.keys() & after.keys()
    assert {"ctl", "cpu-1", "cpu-2"} <= stay
    assert [name for name in stay if pods[name].inputs != after[name].inputs] == []


def test_pods_know_all_of_the_clusters_own_machines_that_there_can_be() -> None:
    more = {"backup": True, "accounting": {}, "login_machines": 16}
    asked = spec(controller=more, volumes={**VOLUMES, "database": "nas:/export/db"})
    for name, pod in registered(spec()).of_type(POD).items():
        known = {each["hostnames"][0]: IPv4Address(each["ip"]) for each in pod.inputs["spec"]["hostAliases"]}
        # Its own name it has by its address from Kubernetes.
        assert known == {host: at for host, at in asked.own_hosts.items() if host != name}
        assert known["dbd"] == IPv4Address("10.77.0.4")


def test_all_that_an_offering_says_is_asked_of_kubernetes() -> None:
    pod = registered(spec(TUNED, gres=GPUS))[f"{POD} cpu-1"].inputs["spec"]
    assert pod["nodeSelector"] == {"kubernetes.io/arch": "amd64", "site/rack": "r7"}
    assert pod["tolerations"] == [
        {"key": "site/hpc", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "site/owner", "operator": "Equal", "value": "physics"},
    ]
    assert pod["topologySpreadConstraints"] == [
        {
            "topologyKey": "topology.kubernetes.io/zone",
            "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"tidepool/stack": "dev", "tidepool/fleet": "cpu"}},
        }
    ]
    assert (pod["priorityClassName"], pod["runtimeClassName"]) == ("hpc", "nvidia")
    amounts = {"cpu": "4", "memory": "4608Mi", "nvidia.com/gpu": "2", "rdma/hca": "1"}
    assert pod["containers"][0]["resources"] == {"requests": amounts, "limits": amounts}


def test_pods_may_nothing_in_kubernetes_and_little_on_their_node() -> None:
    graph = registered(spec())
    pod = graph[f"{POD} cpu-1"].inputs["spec"]
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("machine", False)
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    assert not [each for each in pod["volumes"] if "hostPath" in each]
    security = pod["containers"][0]["securityContext"]
    assert security["capabilities"]["drop"] == ["ALL"]
    assert not {"SYS_ADMIN", "NET_ADMIN", "SYS_PTRACE"} & {*security["capabilities"]["add"]}
    labels = graph[f"{NAMESPACE} kubernetes"].inputs["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "baseline"


def test_the_scaler_may_make_and_take_pods_and_nothing_with_a_wildcard() -> None:
    graph = registered(spec(scaler="scaler-of-physics"))
    rules = graph[f"{ROLE} scaler"].inputs["rules"]
    assert {resource for rule in rules for resource in rule["resources"]} == {"namespaces", "pods"}
    assert not [rule for rule in rules if "*" in str(rule)]
    assert graph[f"{BINDING} scaler"].inputs["subjects"] == [
        {"kind": "User", "name": "scaler-of-physics", "apiGroup": "rbac.authorization.k8s.io"}
    ]
    assert {each["kind"] for each in [graph[f"{BINDING} scaler"].inputs["roleRef"]]} == {"Role"}


def test_who_reaches_pods_is_said_and_nobody_else_does() -> None:
    graph = registered(spec(reached_from=["192.168.7.0/24"]))
    policy = graph[f"{POLICY} machines"].inputs["spec"]
    mine = [
        {"podSelector": {"matchLabels": {"tidepool/stack": "dev"}}},
        {"ipBlock": {"cidr": "10.77.0.0/16"}},
    ]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"] == [{"from": [*mine, {"ipBlock": {"cidr": "192.168.7.0/24"}}]}]
    assert policy["egress"][0] == {"to": mine}
    # No pod runs before it holds.
    assert f"{POLICY} machines" in graph[f"{POD} cpu-1"].depends_on
    assert set(graph.of_type(POLICY)) == {"machines"}


def test_the_firewall_is_policies_of_nodes_and_of_login_machines_besides() -> None:
    graph = registered(spec(firewall=FIREWALL))
    nodes, logins = (graph[f"{POLICY} {name}"].inputs["spec"] for name in ("nodes", "logins"))
    assert nodes["podSelector"]["matchExpressions"] == [{"key": "tidepool/fleet", "operator": "Exists"}]
    assert nodes["policyTypes"] == ["Egress"]
    assert nodes["egress"] == [
        {
            "to": [{"ipBlock": {"cidr": "198.51.100.7/32"}}],
            "ports": [
                {"protocol": "TCP", "port": 443},
                {"protocol": "TCP", "port": 27000, "endPort": 27010},
            ],
        },
        # Not what is on the link of each: there is a cloud's own service.
        {
            "to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["169.254.0.0/16"]}}],
            "ports": [{"protocol": "UDP", "port": 1, "endPort": 65535}],
        },
    ]
    assert logins["podSelector"]["matchExpressions"] == [
        {"key": "tidepool/node", "operator": "In", "values": ["login-1"]}
    ]
    assert logins["ingress"] == [
        {
            "from": [{"ipBlock": {"cidr": "192.0.2.0/24"}}],
            "ports": [{"port": 22, "protocol": "TCP"}],
        }
    ]
    assert {f"{POLICY} nodes", f"{POLICY} logins"} <= graph[f"{POD} cpu-1"].depends_on


def test_nodes_that_are_busy_are_kept_and_others_may_be_evicted() -> None:
    graph = registered(spec())
    pods = {name: graph[f"{POD} {name}"].inputs["spec"]["containers"][0] for name in ("cpu-1", "ctl")}
    # Ready is busy: what runs a job is there.
    assert pods["cpu-1"]["readinessProbe"]["exec"] == {"command": ["pgrep", "-x", "slurmstepd"]}
    assert graph[f"{BUDGET} busy-cpu"].inputs["spec"] == {
        "minAvailable": 65534,
        "selector": {"matchLabels": {"tidepool/stack": "dev", "tidepool/fleet": "cpu"}},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    # Controllers are ready while they run, and always kept.
    assert "readinessProbe" not in pods["ctl"]
    assert graph[f"{BUDGET} own"].inputs["spec"]["selector"] == {
        "matchLabels": {"tidepool/stack": "dev"},
        "matchExpressions": [{"key": "tidepool/fleet", "operator": "DoesNotExist"}],
    }


def test_a_machine_comes_after_all_that_it_needs_and_a_node_after_its_machine() -> None:
    graph = registered(spec())
    pod = graph[f"{POD} cpu-1"]
    assert f"{SECRET} cpu" in pod.by_input["spec"]
    assert "tidepool:image:File debian-12@oci" in pod.by_input["spec"]
    assert {f"{NAMESPACE} kubernetes", "kubernetes:core/v1:ServiceAccount machine"} <= pod.depends_on
    assert pod.replace_with == {"tidepool:slurm:Slots cpu"}
    assert pod.delete_before_replace
    answers = graph[f"{ANSWERS} cpu-1"]
    assert answers.by_input == {"object": {f"{POD} cpu-1"}, "access": {f"{ACCESS} ssh@machines"}}
    assert (answers.inputs["object"], answers.inputs["address"]) == ("uid-of-cpu-1", "10.77.10.1")
    node = graph["tidepool:slurm:Node cpu-1"]
    assert node.by_input["machine"] == {f"{ANSWERS} cpu-1"}
    assert node.inputs["machine"] == connection("10.77.10.1")
    # Machines wait for no other of their fleet, so that one which does not come holds nobody back.
    assert f"{POD} cpu-2" not in pod.depends_on


def test_keys_are_in_boots_alone_and_secret_there() -> None:
    graph = registered(spec(), munge_key="bXkgc2VjcmV0")
    for each in of_kubernetes(graph).values():
        if each.type == SECRET:
            assert each.secrets == {"data"}
            assert each.inputs["data"]["etc.munge.munge.key"] == "bXkgc2VjcmV0"
        else:
            assert not each.secrets
            assert "bXkgc2VjcmV0" not in str(each.inputs)


def test_a_boot_is_a_program_and_files_that_it_installs() -> None:
    data = registered(spec())[f"{SECRET} cpu"].inputs["data"]
    program = base64.b64decode(data["start"]).decode()
    assert program.index("munged") < program.index("/usr/sbin/slurmd")
    assert "--conf-server ctl" in program
    for key in data.keys() - {"start"}:
        assert f'"$files"/{key} ' in program


def test_a_slurmctld_that_another_one_took_over_from_stays_ended_and_one_that_is_alone_does_not() -> None:
    for asked, kept in (
        (spec(), "keep '' /bin/sh -c "),
        (spec(controller={"backup": True}), "keep /run/tidepool/start/slurmctld /bin/sh -c "),
    ):
        data = registered(asked)[f"{SECRET} ctl"].inputs["data"]
        assert kept in base64.b64decode(data["start"]).decode()


def test_a_machine_says_little_of_itself() -> None:
    """Less than 2 KB of what is its own: a pod has to be told whole."""
    assert len(json.dumps(registered(spec())[f"{POD} cpu-1"].inputs)) < 2850


def test_another_image_is_other_pods() -> None:
    names = changed(spec(), spec(), digest="e" * 64)
    assert {name for name in names if name.startswith("kubernetes:")} == {
        f"{POD} {name}" for name in ("ctl", "login-1", "cpu-1", "cpu-2")
    }


def test_another_boot_changes_secrets_and_no_machine() -> None:
    names = changed(spec(), spec(), munge_key="YW5vdGhlcg==")
    assert {name for name in names if name.startswith("kubernetes:")} == {
        f"{SECRET} {kind}" for kind in ("ctl", "login", "cpu")
    }


def test_another_shape_changes_the_machines_of_one_fleet() -> None:
    larger = mapping()
    larger["fleets"][0]["shape"]["memory"] = "8GiB"
    names = changed(spec(), ClusterSpec.model_validate(larger))
    assert {name for name in names if "kubernetes:" in name or PLACE in name} == {
        f"{PLACE} kubernetes",
        f"{POD} cpu-1",
        f"{POD} cpu-2",
    }


def test_more_nodes_change_what_is_asked_for_and_no_machine() -> None:
    larger = mapping()
    larger["fleets"][0]["max_nodes"] = 8
    names = changed(spec(), ClusterSpec.model_validate(larger))
    assert {name for name in names if "kubernetes" in name} == {f"{PLACE} kubernetes"}


def test_what_outlives_pods_is_a_claim_and_home_outlives_the_stack() -> None:
    volumes = {**VOLUMES, "home": {"storage_class": "nfs", "size": "100Gi"}}
    graph = registered(spec(volumes=volumes))
    claim = graph[f"{CLAIM} home"].inputs["spec"]
    assert claim == {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "nfs",
        "resources": {"requests": {"storage": "100Gi"}},
    }
    mounted = {each["name"]: each for each in graph[f"{POD} cpu-1"].inputs["spec"]["volumes"]}
    assert mounted["volume-0"]["persistentVolumeClaim"] == {"claimName": "home"}


def test_addresses_are_given_by_whom_the_spec_names() -> None:
    def notes(**place: Any) -> dict[str, str]:
        graph = registered(spec(**place))
        found: dict[str, str] = graph[f"{POD} cpu-1"].inputs["metadata"]["annotations"]
        return {key: value for key, value in found.items() if "pulumi" not in key}

    assert notes(addresses="kube-ovn") == {
        "ovn.kubernetes.io/ip_address": "10.77.10.1",
        "ovn.kubernetes.io/mac_address": "02:74:0a:4d:0a:01",
    }
    (said,) = json.loads(notes(addresses="multus", interface="eth1")["k8s.v1.cni.cncf.io/networks"])
    assert said == {"name": "net-16", "ips": ["10.77.10.1/16"], "mac": "02:74:0a:4d:0a:01"}
    network = registered(spec(addresses="multus", interface="eth1"))
    told = network["kubernetes:k8s.cni.cncf.io/v1:NetworkAttachmentDefinition net"].inputs
    assert told["metadata"]["name"] == "net-16"
    assert json.loads(told["spec"]["config"])["master"] == "eth1"


def test_an_administrators_namespace_is_left_alone() -> None:
    graph = registered(spec(own_namespace=False, namespace="given"))
    kinds = {each.type for each in of_kubernetes(graph).values()}
    assert not kinds & {NAMESPACE, ROLE, BINDING, "kubernetes:core/v1:ResourceQuota"}
    assert {each.inputs["metadata"]["namespace"] for each in of_kubernetes(graph).values()} == {"given"}


def test_a_quota_is_the_departments() -> None:
    graph = registered(spec(quota={"requests.cpu": "512"}))
    assert graph["kubernetes:core/v1:ResourceQuota kubernetes"].inputs["spec"] == {
        "hard": {"requests.cpu": "512"}
    }
    assert "kubernetes:core/v1:ResourceQuota kubernetes" not in registered(spec()).resources


def test_a_fleet_of_machines_is_a_machine_for_each_name_and_no_set_that_chooses() -> None:
    graph = registered(of_machines({"host_selector": {"site/rack": "r7"}}))
    mine = {name: each.parent for name, each in of_kubernetes(graph).items() if "x-k8s" in name}
    assert mine == {
        f"{METAL3.format('Metal3Cluster')} machines": "",
        f"{METAL3.format('Metal3DataTemplate')} machines": "",
        "kubernetes:cluster.x-k8s.io/v1beta2:Cluster machines": "",
        f"{METAL3.format('Metal3MachineTemplate')} metal": METAL,
        f"{METAL3.format('Metal3Machine')} metal-1": METAL,
        f"{METAL3.format('Metal3Machine')} metal-2": METAL,
        f"{MACHINE} metal-1": METAL,
        f"{MACHINE} metal-2": METAL,
    }
    host = graph[f"{METAL3.format('Metal3Machine')} metal-1"]
    url = f"http://images.site/debian-12-{'d' * 64}.qcow2"
    assert host.inputs["spec"] == {
        "image": {
            "url": url,
            "checksum": f"{url}.sha256sum",
            "checksumType": "sha256",
            "diskFormat": "qcow2",
        },
        "dataTemplate": {"name": "machines"},
        "automatedCleaningMode": "metadata",
        "hostSelector": {"matchLabels": {"site/rack": "r7"}},
    }
    template = graph[f"{METAL3.format('Metal3MachineTemplate')} metal"]
    assert template.inputs["spec"]["template"]["spec"] == host.inputs["spec"]
    assert host.inputs["metadata"]["annotations"]["cluster.x-k8s.io/cloned-from-name"] == "metal"
    machine = graph[f"{MACHINE} metal-1"]
    assert machine.inputs["spec"] == {
        "clusterName": "physics",
        "bootstrap": {"dataSecretName": "boot-metal"},
        "infrastructureRef": {
            "apiGroup": "infrastructure.cluster.x-k8s.io",
            "kind": "Metal3Machine",
            "name": "metal-1",
        },
    }
    assert machine.inputs["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] == "physics"
    assert f"{METAL3.format('Metal3Machine')} metal-1" in machine.depends_on
    assert machine.delete_before_replace
    assert host.delete_before_replace


@pytest.mark.parametrize("fleet", ["metal", "cpu"])
def test_the_first_node_of_a_fleet_adds_nothing_but_what_is_named_as_it_is(fleet: str) -> None:
    """The scaler's `up` is limited to that name: what machines share is there before, and stays when they are gone."""
    without, first = registered(of_machines(), {"none": ""}), registered(of_machines(), {fleet: f"{fleet}-1"})
    assert without.resources.keys() <= first.resources.keys()
    added = {first[name].name for name in first.resources.keys() - without.resources.keys()}
    assert added == {f"{fleet}-1"}


def test_a_fleet_s_template_is_there_before_its_machines() -> None:
    template = f"{METAL3.format('Metal3MachineTemplate')} metal"
    empty, full = registered(of_machines(), {"none": ""}), registered(of_machines())
    assert empty[template] == full[template]
    above = "urn:pulumi:dev::cluster::tidepool:components:ComputeFleet"
    assert full[template].urn == f"{above}${template.replace(' ', '::')}"
    assert template in full[f"{METAL3.format('Metal3Machine')} metal-1"].depends_on


def test_a_machine_is_told_its_name_and_its_address_by_its_metadata() -> None:
    graph = registered(of_machines())
    notes = graph[f"{MACHINE} metal-2"].inputs["metadata"]["annotations"]
    assert notes["tidepool/address"] == "10.77.20.2"
    template = graph[f"{METAL3.format('Metal3DataTemplate')} machines"].inputs["spec"]
    # Metal3 1.13 refuses one without it.
    assert template["clusterName"] == "physics"
    data = template["metaData"]
    assert data["fromAnnotations"] == [
        {"key": "tidepool_address", "object": "machine", "annotation": "tidepool/address"}
    ]
    assert {"key": "local-hostname", "object": "machine"} in data["objectNames"]
    boot = graph[f"{SECRET} metal"]
    assert boot.secrets == {"data"}
    assert boot.inputs["type"] == "cluster.x-k8s.io/secret"
    assert base64.b64decode(boot.inputs["data"]["format"]) == b"cloud-config"
    said = json.loads(base64.b64decode(boot.inputs["data"]["value"]).decode().partition("\n")[2])
    files = {each["path"]: each for each in said["write_files"]}
    assert "/usr/local/lib/tidepool/own-address" in files
    assert "Type=oneshot" in files["/etc/systemd/system/tidepool-own-address.service"]["content"]


def test_another_image_is_other_machines_whole() -> None:
    names = changed(of_machines(), of_machines(), digest="e" * 64)
    assert {name for name in names if "x-k8s" in name} == {
        f"{METAL3.format('Metal3MachineTemplate')} metal",
        *(f"{METAL3.format('Metal3Machine')} metal-{number}" for number in (1, 2)),
        *(f"{MACHINE} metal-{number}" for number in (1, 2)),
    }


def test_the_scaler_of_machines_may_take_machines_too() -> None:
    rules = registered(of_machines())[f"{ROLE} scaler"].inputs["rules"]
    resources = {resource for rule in rules for resource in rule["resources"]}
    assert resources == {"namespaces", "pods", "machines", "metal3machines"}


def test_a_fleet_with_a_controller_elsewhere_has_its_place_apart() -> None:
    said = mapping()
    said["controller"] = {}
    said["infrastructures"] = {
        "kubernetes": {"volumes": {"home": "nas:/export/home"}, "namespace": "physics"}
    }
    graph = registered(ClusterSpec.model_validate(said))
    assert graph[f"{PLACE} kubernetes"].inputs["path"] == "infrastructures.kubernetes"
    assert [each["path"] for each in graph[f"{PLACE} kubernetes"].inputs["demands"]["demands"]] == [
        "fleets[0].infrastructures[0].options"
    ]
    assert f"{BUDGET} own" not in graph.resources
    assert f"{POD} cpu-1" in graph.resources
    assert "tidepool:local:Machine ctl" in graph.resources


def test_a_preview_of_nothing_yet_shows_all_of_it() -> None:
    assert set(registered(of_machines(), preview=True).resources) == set(registered(of_machines()).resources)


def test_mistakes_in_options_end_the_program_with_all_of_them_and_register_nothing() -> None:
    with pytest.raises(pulumi.RunError) as raised:
        infrastructures_of(spec({"node_selector": {"a b": "c"}}, pull="Sometimes"), "dev")
    assert "2 mistakes" in str(raised.value)
    assert "controller.infrastructure.options.pull = 'Sometimes'" in str(raised.value)
    assert "fleets[0].infrastructures[0].options.node_selector" in str(raised.value)


def test_no_part_of_the_package_is_imported_before_it_is_used() -> None:
    """All of it takes seconds."""
    program = "import sys, tidepool.infrastructures.kubernetes.graph; print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = [name for name in said.stdout.split() if name.startswith("pulumi_kubernetes.")]
    assert loaded
    # What is named is there as a name; modules of objects, such as core.v1.Pod, are not.
    assert [name for name in loaded if name.count(".") >= 3] == []
