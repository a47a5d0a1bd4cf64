#!/usr/bin/env python3
"""Checks of Kubernetes objects, for kube-manifest.sh and kube-verbs.sh.

  kube-checks.py restricted FILE...       the pods of FILE fit PodSecurity level "restricted" (the rules of v1.34)
  kube-checks.py schema DIR FILE...       no unknown field, each required one, right types; DIR has the npm packages
  kube-checks.py same FILE FILE           the same documents, whichever is YAML and whichever JSON
  kube-checks.py bad                      print pods that "restricted" must refuse, one JSON array a line
"""
import copy
import json
import os
import re
import sys

import yaml


def documents(name):
    with open(name, encoding="utf-8") as f:
        text = f.read()
    docs = list(yaml.safe_load_all(text))
    return docs[0] if len(docs) == 1 and isinstance(docs[0], list) else docs


# --- PodSecurity "restricted": https://kubernetes.io/docs/concepts/security/pod-security-standards/

VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
SYSCTLS = {"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
           "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports",
           "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
           "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
SELINUX = {None, "", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}


def pod_spec(obj):
    return {"Pod": lambda o: o["spec"], "Job": lambda o: o["spec"]["template"]["spec"]}.get(
        obj["kind"], lambda o: None)(obj)


def restricted_context(ctx, where):
    options = ctx.get("seLinuxOptions", {})
    if options.get("type") not in SELINUX or options.get("user") or options.get("role"):
        yield f"{where}: seLinuxOptions"
    if ctx.get("appArmorProfile", {}).get("type") not in (None, "RuntimeDefault", "Localhost"):
        yield f"{where}: appArmorProfile"
    if ctx.get("runAsUser") == 0:
        yield f"{where}: runAsUser 0"
    if ctx.get("windowsOptions", {}).get("hostProcess"):
        yield f"{where}: hostProcess"
    if ctx.get("seccompProfile", {}).get("type") not in (None, "RuntimeDefault", "Localhost"):
        yield f"{where}: seccompProfile"
    if ctx.get("runAsNonRoot") is False:
        yield f"{where}: runAsNonRoot false"


def restricted_container(c, pod):
    ctx, where = c.get("securityContext", {}), c["name"]
    yield from restricted_context(ctx, where)
    if ctx.get("privileged"):
        yield f"{where}: privileged"
    if ctx.get("allowPrivilegeEscalation") is not False:
        yield f"{where}: allowPrivilegeEscalation"
    caps = ctx.get("capabilities", {})
    if "ALL" not in caps.get("drop", []):
        yield f"{where}: capabilities are not dropped"
    if set(caps.get("add", [])) - {"NET_BIND_SERVICE"}:
        yield f"{where}: capabilities are added"
    if ctx.get("procMount") not in (None, "Default"):
        yield f"{where}: procMount"
    if not ctx.get("seccompProfile") and not pod.get("seccompProfile"):
        yield f"{where}: no seccompProfile"
    if not ctx.get("runAsNonRoot") and not pod.get("runAsNonRoot"):
        yield f"{where}: runAsNonRoot is not set"
    if any(p.get("hostPort") for p in c.get("ports", [])):
        yield f"{where}: hostPort"
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        for how in ("httpGet", "tcpSocket"):
            if c.get(probe, {}).get(how, {}).get("host"):
                yield f"{where}: host of a probe"


def restricted(obj):
    spec = pod_spec(obj)
    if spec is None:
        return
    pod = spec.get("securityContext", {})
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(key):
            yield key
    yield from restricted_context(pod, "pod")
    if set(s["name"] for s in pod.get("sysctls", [])) - SYSCTLS:
        yield "sysctls"
    for key, value in obj.get("metadata", {}).get("annotations", {}).items():
        if key.startswith("container.apparmor.security.beta.kubernetes.io/") and value == "unconfined":
            yield "appArmor annotation"
    for v in spec.get("volumes", []):
        if set(v) - {"name"} - VOLUMES:
            yield f"volume {v['name']}: {sorted(set(v) - {'name'})}"
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for c in spec.get(kind, []):
            yield from restricted_container(c, pod)
    # beyond the level: what every sandbox of ours promises
    if spec.get("enableServiceLinks") is not False:
        yield "enableServiceLinks"
    if not spec.get("serviceAccountName") and spec.get("automountServiceAccountToken") is not False:
        yield "automountServiceAccountToken"
    for v in spec.get("volumes", []):
        if "emptyDir" in v and not v["emptyDir"].get("sizeLimit"):
            yield f"volume {v['name']}: no size"
    for c in spec["containers"]:
        limits, requests = (c.get("resources", {}).get(k, {}) for k in ("limits", "requests"))
        if "ephemeral-storage" not in limits or set(limits) - set(requests):
            yield f"{c['name']}: limits and requests"


GOOD = {
    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
    "spec": {
        "enableServiceLinks": False, "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "volumes": [{"name": "a", "emptyDir": {"sizeLimit": "1Gi"}}],
        "containers": [{"name": "c", "image": "i",
                        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                        "resources": {"limits": {"ephemeral-storage": "1Gi"},
                                      "requests": {"ephemeral-storage": "1Gi"}}}]}}


def bad_pods():
    def change(path, value):
        pod = copy.deepcopy(GOOD)
        at = pod["spec"]
        for key in path[:-1]:
            at = at.setdefault(key, {}) if isinstance(at, dict) else at[key]
        if value is None:
            del at[path[-1]]
        else:
            at[path[-1]] = value
        return [pod]

    c = ["containers", 0]
    yield change(["hostNetwork"], True)
    yield change(["hostPID"], True)
    yield change(["hostIPC"], True)
    yield change(["enableServiceLinks"], None)
    yield change(["automountServiceAccountToken"], True)
    yield change(["volumes"], [{"name": "h", "hostPath": {"path": "/"}}])
    yield change(["volumes"], [{"name": "n", "nfs": {"server": "s", "path": "/"}}])
    yield change(["volumes", 0, "emptyDir"], {})
    yield change(["securityContext", "runAsNonRoot"], None)
    yield change(["securityContext", "runAsUser"], 0)
    yield change(["securityContext", "seccompProfile"], None)
    yield change(["securityContext", "seccompProfile"], {"type": "Unconfined"})
    yield change(["securityContext", "sysctls"], [{"name": "kernel.msgmax", "value": "1"}])
    yield change(["securityContext", "seLinuxOptions"], {"type": "spc_t"})
    yield change(c + ["securityContext"], None)
    yield change(c + ["securityContext", "privileged"], True)
    yield change(c + ["securityContext", "allowPrivilegeEscalation"], True)
    yield change(c + ["securityContext", "allowPrivilegeEscalation"], None)
    yield change(c + ["securityContext", "capabilities"], {"drop": ["NET_RAW"]})
    yield change(c + ["securityContext", "capabilities", "add"], ["SYS_ADMIN"])
    yield change(c + ["securityContext", "procMount"], "Unmasked")
    yield change(c + ["securityContext", "runAsUser"], 0)
    yield change(c + ["securityContext", "runAsNonRoot"], False)
    yield change(c + ["securityContext", "seccompProfile"], {"type": "Unconfined"})
    yield change(c + ["securityContext", "appArmorProfile"], {"type": "Unconfined"})
    yield change(c + ["ports"], [{"containerPort": 80, "hostPort": 80}])
    yield change(c + ["livenessProbe"], {"httpGet": {"host": "10.0.0.1", "port": 1}})
    yield change(c + ["resources"], None)
    yield change(["initContainers"], [{"name": "i", "image": "i"}])
    yield change(["ephemeralContainers"], [{"name": "e", "image": "i"}])


# --- schemas: the type declarations of the npm packages kubernetes-models and @kubernetes-models/apimachinery

class Schemas:
    """Reads one declaration file a type: `"name"?: TYPE;` within the braces of its interface."""

    def __init__(self, top):
        self.top, self.types = top, {}
        self.files = {}
        for package in ("kubernetes-models", "apimachinery"):
            for root, _, names in os.walk(os.path.join(top, package)):
                for name in names:
                    if name.endswith(".d.ts") and name != "index.d.ts":
                        self.declare(os.path.join(root, name))

    def declare(self, name):
        with open(name, encoding="utf-8") as f:
            text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
        alias = re.search(r"export type \{ (I\w+) as (I\w+)", text)
        if alias:
            self.files[alias.group(2)] = (alias.group(1), text)

    def fields(self, type_name):
        if type_name in self.types:
            return self.types[type_name]
        own, text = self.files[type_name]
        plain = re.search(r"export type %s = ([^;]+);" % own, text)
        m = re.search(r"export interface %s(?: extends \w+)? \{\n(.*?)^\}" % own, text, re.S | re.M)
        result = plain.group(1).strip() if plain else dict(
            (name, (kind.strip(), not optional))
            for name, optional, kind in re.findall(r'^    "([^"]+)"(\??): (\{.*?^    \}|.*?);$', m.group(1), re.S | re.M))
        self.types[type_name] = result
        return result

    def check(self, value, kind, where):
        kind = kind.strip()
        array = re.fullmatch(r"Array<(.+)>", kind, re.S)
        mapping = re.fullmatch(r"\{\s*\[key: string\]: (.+?);\s*\}", kind, re.S)
        if array:
            if not isinstance(value, list):
                yield f"{where}: not a list"
            else:
                for i, item in enumerate(value):
                    yield from self.check(item, array.group(1), f"{where}[{i}]")
        elif mapping:
            if not isinstance(value, dict):
                yield f"{where}: not a mapping"
            else:
                for key, item in value.items():
                    yield from self.check(item, mapping.group(1), f"{where}.{key}")
        elif kind in self.files:
            yield from self.check_named(value, kind, where)
        else:
            yield from self.check_plain(value, kind, where)

    def check_plain(self, value, kind, where):
        words = [w.strip() for w in kind.split("|")]
        good = any((w == "string" and isinstance(value, str)) or
                   (w == "number" and isinstance(value, int) and not isinstance(value, bool)) or
                   (w == "boolean" and isinstance(value, bool)) or
                   (w.startswith('"') and value == w.strip('"')) for w in words)
        if not good:
            yield f"{where}: {value!r} is not {kind}"

    def check_named(self, value, kind, where):
        fields = self.fields(kind)
        if isinstance(fields, str):
            yield from self.check(value, fields, where)
            return
        if not isinstance(value, dict):
            yield f"{where}: not a mapping"
            return
        for key in value:
            if key not in fields:
                yield f"{where}.{key}: unknown field"
            else:
                yield from self.check(value[key], fields[key][0], f"{where}.{key}")
        for key, (_, required) in fields.items():
            if required and key not in value:
                yield f"{where}.{key}: missing"

    def check_object(self, obj):
        group, _, version = obj["apiVersion"].rpartition("/")
        known = {"": "Core", "batch": "Batch", "networking.k8s.io": "Networking", "apps": "Apps",
                 "rbac.authorization.k8s.io": "Rbac"}
        name = f"IIoK8sApi{known[group]}{version[0].upper()}{version[1:]}{obj['kind']}"
        yield from self.check(obj, name, obj["kind"])


def cilium(obj):
    """The CRD is in no package: the fields that its documentation has, of those that are used here."""
    peers = {"toEndpoints", "toFQDNs", "fromEndpoints", "toPorts"}
    if set(obj) != {"apiVersion", "kind", "metadata", "spec"}:
        yield "top level"
    if set(obj["spec"]) - {"endpointSelector", "egress", "ingress"}:
        yield "spec"
    for rule in obj["spec"].get("egress", []) + obj["spec"].get("ingress", []):
        if set(rule) - peers:
            yield f"rule: {sorted(set(rule) - peers)}"
        for ports in rule["toPorts"]:
            if set(ports) - {"ports", "rules"} or not all(
                    set(p) == {"port", "protocol"} and isinstance(p["port"], str) for p in ports["ports"]):
                yield "toPorts"


def main(argv):
    what, names = argv[1], argv[2:]
    if what == "bad":
        for pods in bad_pods():
            print(json.dumps(pods))
        return 0
    if what == "same":
        a, b = (documents(n) for n in names)
        if a != b:
            print(f"{names[0]} and {names[1]} differ")
        return int(a != b)
    wrong, pods = [], 0
    schemas = Schemas(names.pop(0)) if what == "schema" else None
    for name in names:
        for obj in documents(name):
            pods += pod_spec(obj) is not None
            found = restricted(obj) if what == "restricted" else \
                cilium(obj) if obj["kind"].startswith("Cilium") else schemas.check_object(obj)
            wrong += [f"{name}: {obj['kind']} {obj.get('metadata', {}).get('name')}: {text}" for text in found]
    if what == "restricted" and not pods:
        wrong.append("no pod in it")
    print("\n".join(wrong))
    return int(bool(wrong))


sys.exit(main(sys.argv))
