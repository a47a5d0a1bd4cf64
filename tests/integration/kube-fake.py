#!/usr/bin/env python3
"""The tests' own Kubernetes API server: TLS, objects in memory, and whatever can go wrong, on demand.

    kube-fake.py DIR [JSON SETTINGS]      (no package beyond the standard library; needs the command openssl)

It listens on a free port of 127.0.0.1, and when it serves DIR has: port, ca.crt, kubeconfig (context `fake`, namespace
`test`, token `admin-token`), cert.crt and cert.key (a client certificate, CN=cert-user), account/ (token, ca.crt,
namespace: as in a pod; tests set KUBERNETES_SERVICE_HOST and _PORT), pid. It ends on SIGTERM, with everything that it
started, or when its parent ends.

What it does of a cluster
- pods, configmaps, secrets, persistentvolumeclaims, serviceaccounts, events, jobs, networkpolicies, leases, namespaces,
  nodes: create, get, list (limit/continue, label and field selectors), watch (bookmarks), merge patch, update with
  resourceVersion, delete (preconditions, grace, propagation), delete collection; owner references collect; names are
  not checked against schemas.
- A kubelet: a pod becomes Pending, then Running and Ready; its first container's command really runs, as a process
  here, in DIR/pods/NS_NAME (its directory of work; HOME is there too). In command, args, env and exec, mount paths of
  the pod's volumes are replaced by directories below it: /workspace/x becomes DIR/pods/NS_NAME/workspace/x. Secret and
  ConfigMap volumes are filled at start, env and secretKeyRef are set; it waits for Secrets that are not there, and
  brings in what changes in them. It ends Succeeded or Failed with its exit code,
  or by activeDeadlineSeconds.
- A Job makes its pod and ends with it. A claim is Bound at once.
- exec over WebSocket (v5 and v4) really runs commands, with a terminal if asked for; log with follow.
- SelfSubjectAccessReview, tokens and certificates, 403 by rule.

How to script it: HTTP to the same port, without credentials (curl --cacert DIR/ca.crt https://127.0.0.1:PORT/fake/...)
- POST /fake/set {KEY: VALUE}   settings, below; what is not named stays
- POST /fake/faults [RULE...]   replaces the rules; each request takes the first that fits and has `times` left:
    {"method": "POST", "path": "REGEX on path?query", "times": 1 (0: always), "after": 0 (requests let through first),
     "status": 429, "reason": "TooManyRequests", "message": "...", "retry_after": 1, "html": true (no Status object),
     "done": true        carry it out first, then answer with the above, or cut: the ambiguous failure
     "slow": 0.5         seconds before it answers
     "gather": 2         none is answered before so many have come
     "cut": true         close the connection without an answer
     "cut_after": 100    ... after so many bytes of the answer's body (a watch's or log's too)
     "raw": "TEXT"       this body with 200, "huge": BYTES, "many": OBJECTS or "deep": LEVELS: such JSON
     "empty": true       200 without a body
     "bytes": "TEXT"     these for all of the answer, then "again" "repeat" times ("at_once" of them, "pause" seconds
                         apart), then "last"; the connection stays "open" so many seconds}
  rules for watches: "gone": "status" or "event" (410), "line": "TEXT" (sent in the stream),
     "long_line": BYTES (a line without an end), "silent": true
  rules for exec: "exec": "cut" (after `cut_after` bytes of output), "no_status", "huge", "bad_frame", "bad_opcode",
     "status" (with "raw": its text), "silent" (answers no ping and sends nothing), "text" (status in a text frame),
     "close" (a close frame before the status), "abrupt" (input that comes within "seconds" after the
     command's end cuts the connection before the status, as it does between API servers before 1.30 and their kubelets); "protocol": what the answer says
- POST /fake/compact            forget the history: watches from older versions get 410
- POST /fake/cut                cut all watches, logs and execs that run; {"watches": true}: the watches
- POST /fake/status {"ns", "name", "status": {...}}   merge into a pod's status
- POST /fake/object {"resource", "object"}            put an object there as it is
- POST /fake/forget             everything but namespaces and nodes is gone
- GET  /fake/log                JSON lines of all requests: method, path, query, user, body, code
- GET  /fake/objects            all objects

Settings
  delete_seconds 0.05    a pod stays Terminating so long (at most its grace period); "slow deletion": 5
  start_seconds 0.05     from created to Running
  secret_seconds 0.05    until a volume has what changed in its Secret
  exec_protocols         ["v5.channel.k8s.io", "v4.channel.k8s.io"]; what is not there is refused with 403, empty
  tokens                 {"admin-token": "admin"}: token -> user
  deny                   ["VERB RESOURCE[/SUB]", ...], * for any: 403 and not allowed in reviews
  allow                  the same; when set, everything else is denied
  pods                   [{"match": "REGEX on name", ...}]: the first that fits decides about a pod
      "stay": "Pending"           never starts; with "waiting": "ImagePullBackOff", "message": "..."
      "unschedulable": "0/1 nodes are available: ..."
      "end": {"exitCode": 137, "reason": "OOMKilled"}   at once, or after "seconds"
      "pod_reason": "Evicted"     status.reason of a failed pod
      "run": false                the command is not run; the pod is Running until deleted
  version                "v1.31.0"
  (programs in DIR/bin come first in the PATH of all commands)
  net                    "enforced": pods that a deny-all NetworkPolicy selects cannot connect (for --prove-network:
                         commands of exec see COFFERDAM_FAKE_NET=denied in their environment)
"""
import base64
import copy
import ctypes
import fcntl
import hashlib
import http.server
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import termios
import threading
import time
import traceback
import urllib.parse
import uuid

DIR = os.path.abspath(sys.argv[1])
SETTINGS = {
    "delete_seconds": 0.05, "start_seconds": 0.05, "secret_seconds": 0.05, "exec_protocols": ["v5.channel.k8s.io", "v4.channel.k8s.io"],
    "tokens": {"admin-token": "admin"}, "deny": [], "allow": None, "pods": [], "version": "v1.31.0", "net": "",
}
KINDS = {
    "pods": ("Pod", "v1"), "configmaps": ("ConfigMap", "v1"), "secrets": ("Secret", "v1"), "events": ("Event", "v1"),
    "persistentvolumeclaims": ("PersistentVolumeClaim", "v1"), "serviceaccounts": ("ServiceAccount", "v1"),
    "namespaces": ("Namespace", "v1"), "nodes": ("Node", "v1"), "jobs": ("Job", "batch/v1"),
    "networkpolicies": ("NetworkPolicy", "networking.k8s.io/v1"), "leases": ("Lease", "coordination.k8s.io/v1"),
}
LIBC = ctypes.CDLL(None)
LOCK = threading.RLock()
CHANGED = threading.Condition(LOCK)
objects = {}  # (resource, ns, name) -> object
history = []  # (version, resource, type, object)
state = {"version": 100, "forgotten": 0, "ip": 1, "cut": 0, "cut_watches": 0}
faults = []
log = []
containers = {}  # uid -> Container


def die_with_us():
    """for children, before exec: PR_SET_PDEATHSIG"""
    LIBC.prctl(1, signal.SIGKILL)


def own_terminal():
    die_with_us()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Refuse(Exception):
    def __init__(self, code, reason, message, retry=0, details=None):
        super().__init__(message)
        self.code, self.reason, self.message, self.retry, self.details = code, reason, message, retry, details

    def body(self):
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message,
                "reason": self.reason, "code": self.code, "details": self.details or
                ({"retryAfterSeconds": self.retry} if self.retry else {})}


def record(kind, resource, obj):
    state["version"] += 1
    obj["metadata"]["resourceVersion"] = str(state["version"])
    history.append((state["version"], resource, kind, copy.deepcopy(obj)))
    CHANGED.notify_all()
    if resource == "secrets" and kind == "MODIFIED":
        for container in containers.values():
            timer = threading.Timer(SETTINGS["secret_seconds"], container.refresh, [obj["metadata"]["name"]])
            timer.daemon = True
            timer.start()


def not_found(resource, name):
    return Refuse(404, "NotFound", f'{resource} "{name}" not found')


def find(resource, ns, name):
    obj = objects.get((resource, ns, name))
    if obj is None:
        raise not_found(resource, name)
    return obj


def merge(into, patch):
    for k, v in patch.items():
        if v is None:
            into.pop(k, None)
        elif isinstance(v, dict) and isinstance(into.get(k), dict):
            merge(into[k], v)
        else:
            into[k] = copy.deepcopy(v)


def create(resource, ns, obj):
    kind, version = KINDS[resource]
    if obj.get("kind") != kind or obj.get("apiVersion") != version:
        raise Refuse(400, "BadRequest", f"want {version} {kind}, got {obj.get('apiVersion')} {obj.get('kind')}")
    meta = obj.setdefault("metadata", {})
    name = meta.get("name") or (meta["generateName"] + uuid.uuid4().hex[:5] if "generateName" in meta else None)
    if not name or not re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", name):
        raise Refuse(422, "Invalid", f'{kind} "{name}" is invalid: metadata.name: Invalid value: "{name}"')
    if (resource, ns, name) in objects:
        raise Refuse(409, "AlreadyExists", f'{resource} "{name}" already exists')
    meta.update(name=name, uid=str(uuid.uuid4()), creationTimestamp=now())
    if ns:
        meta["namespace"] = ns
    if resource == "pods":
        obj["status"] = {"phase": "Pending"}
    if resource == "persistentvolumeclaims":
        obj["status"] = {"phase": "Bound"}
    if resource == "jobs":
        obj["status"] = {}
    objects[(resource, ns, name)] = obj
    record("ADDED", resource, obj)
    if resource == "pods":
        Container(ns, name, meta["uid"]).start()
    if resource == "jobs":
        job_pod(ns, obj)
    return obj


def job_pod(ns, job):
    meta = job["metadata"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": copy.deepcopy(job["spec"]["template"].get("metadata", {})),
           "spec": copy.deepcopy(job["spec"]["template"]["spec"])}
    pod["metadata"]["name"] = f"{meta['name']}-{uuid.uuid4().hex[:5]}"
    labels = {"job-name": meta["name"], "controller-uid": meta["uid"], "batch.kubernetes.io/job-name": meta["name"]}
    pod["metadata"].setdefault("labels", {}).update(labels)
    pod["metadata"]["ownerReferences"] = [{"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"],
                                           "uid": meta["uid"], "controller": True, "blockOwnerDeletion": True}]
    create("pods", ns, pod)


def job_pod_ended(pod):
    for ref in pod["metadata"].get("ownerReferences", []):
        job = objects.get(("jobs", pod["metadata"]["namespace"], ref["name"]))
        if ref["kind"] != "Job" or not job or job["metadata"]["uid"] != ref["uid"]:
            continue
        done = pod["status"]["phase"] == "Succeeded"
        failed = job["status"].get("failed", 0)
        if done:
            job["status"].update(succeeded=1, conditions=[{"type": "Complete", "status": "True"}])
        else:
            job["status"]["failed"] = failed + 1
            if failed >= job["spec"].get("backoffLimit", 6):
                job["status"]["conditions"] = [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded",
                                                "message": "Job has reached the specified backoff limit"}]
            else:
                job_pod(pod["metadata"]["namespace"], job)
        record("MODIFIED", "jobs", job)


def remove(resource, ns, name, uid=None):
    """takes it away now, and after it what it owns"""
    obj = objects.get((resource, ns, name))
    if obj is None or (uid and obj["metadata"]["uid"] != uid):
        return
    del objects[(resource, ns, name)]
    record("DELETED", resource, obj)
    gone = obj["metadata"]["uid"]
    for (r, n, o), other in list(objects.items()):
        if any(ref.get("uid") == gone for ref in other["metadata"].get("ownerReferences", [])):
            threading.Timer(0.1, delete_quietly, (r, n, o, other["metadata"]["uid"])).start()


def delete_quietly(resource, ns, name, uid):
    with LOCK:
        try:
            delete(resource, ns, name, {"preconditions": {"uid": uid}})
        except Refuse:
            pass


def delete(resource, ns, name, options):
    obj = find(resource, ns, name)
    meta = obj["metadata"]
    want = (options.get("preconditions") or {}).get("uid")
    if want and want != meta["uid"]:
        raise Refuse(409, "Conflict", f"Precondition failed: UID in precondition: {want}, UID in object meta: {meta['uid']}")
    if resource == "jobs" and options.get("propagationPolicy") == "Orphan":
        for other in objects.values():
            refs = other["metadata"].get("ownerReferences", [])
            other["metadata"]["ownerReferences"] = [r for r in refs if r["uid"] != meta["uid"]]
    if resource != "pods":
        remove(resource, ns, name)
        return obj
    grace = options.get("gracePeriodSeconds", obj["spec"].get("terminationGracePeriodSeconds", 30))
    if grace == 0 and "deletionTimestamp" not in meta:  # by force: nobody sees it being deleted
        if meta["uid"] in containers:
            containers[meta["uid"]].kill()
        remove("pods", ns, name)
    elif "deletionTimestamp" not in meta:
        meta["deletionTimestamp"] = now()
        meta["deletionGracePeriodSeconds"] = grace
        record("MODIFIED", resource, obj)
        uid = meta["uid"]
        box = containers.get(uid)
        if box:
            box.ask_to_end()

        def end():
            if box:
                box.kill()
            with LOCK:
                remove("pods", ns, name, uid)
        threading.Timer(min(grace, SETTINGS["delete_seconds"]), end).start()
    elif grace == 0:
        remove("pods", ns, name)
    return obj


# --- the kubelet ---------------------------------------------------------------------------------------------------


class Container(threading.Thread):
    """what runs a pod"""

    def __init__(self, ns, name, uid):
        super().__init__(daemon=True)
        self.ns, self.name_, self.uid = ns, name, uid
        self.root = f"{DIR}/pods/{ns}_{name}"
        self.log_path = f"{DIR}/pods/{ns}_{name}.log"
        self.process = None
        self.execs = set()
        self.dead = False
        self.ended = threading.Event()
        containers[uid] = self

    def pod(self):
        pod = objects.get(("pods", self.ns, self.name_))
        return pod if pod and pod["metadata"]["uid"] == self.uid else None

    def rule(self):
        return next((r for r in SETTINGS["pods"] if re.search(r["match"], self.name_)), {})

    def status(self, **change):
        with LOCK:
            pod = self.pod()
            if pod:
                merge(pod["status"], change)
                record("MODIFIED", "pods", pod)

    def container_state(self, state_, ready=False):
        pod = self.pod()
        first = pod["spec"]["containers"][0]
        return [{"name": first["name"], "image": first.get("image", ""), "imageID": "", "restartCount": 0, "ready": ready,
                 "started": ready, "state": state_}]

    def local(self, text):
        """paths of mounts as they are here"""
        with LOCK:
            mounts = self.pod()["spec"]["containers"][0].get("volumeMounts", [])
        if not mounts:
            return text
        # in one pass: what was replaced may hold another mount's path
        paths = "|".join(re.escape(p) for p in sorted((m["mountPath"].rstrip("/") for m in mounts), key=len, reverse=True))
        return re.sub(rf"(?<![\w./-])({paths})(?=$|[^\w.-])", lambda m: self.root + m[1], text)

    def fill(self):
        os.makedirs(self.root, exist_ok=True)
        with LOCK:
            pod = copy.deepcopy(self.pod())
        volumes = {v["name"]: v for v in pod["spec"].get("volumes", [])}
        for mount in pod["spec"]["containers"][0].get("volumeMounts", []):
            volume = volumes.get(mount["name"], {})
            claim = volume.get("persistentVolumeClaim")
            place = self.root + mount["mountPath"].rstrip("/")
            os.makedirs(os.path.dirname(place), exist_ok=True)
            if claim and not os.path.lexists(place):
                store = f"{DIR}/claims/{self.ns}_{claim['claimName']}/{mount.get('subPath', '')}"
                os.makedirs(store, exist_ok=True)
                os.symlink(store.rstrip("/"), place)
                continue
            os.makedirs(place, exist_ok=True)
            for kind, resource, key in (("secret", "secrets", "secretName"), ("configMap", "configmaps", "name")):
                source = volume.get(kind)
                if not source:
                    continue
                obj = objects.get((resource, self.ns, source[key]), {})
                data = {k: base64.b64decode(v) for k, v in obj.get("data", {}).items()} if kind == "secret" else \
                    {k: v.encode() for k, v in obj.get("data", {}).items()}
                data.update({k: v.encode() for k, v in obj.get("stringData", {}).items()})
                items = source.get("items") or [{"key": k, "path": k} for k in data]
                for item in items:
                    if item["key"] in data:
                        with open(f"{place}/{item['path']}", "wb") as f:
                            os.fchmod(f.fileno(), source.get("defaultMode", 0o644))
                            f.write(data[item["key"]])
            for item in (volume.get("downwardAPI") or {}).get("items", []):
                field = item["fieldRef"]["fieldPath"]
                found = re.fullmatch(r"metadata\.(annotations|labels)\['(.*)'\]", field)
                value = pod["metadata"].get(found[1], {}).get(found[2], "") if found else pod["metadata"].get(
                    field.removeprefix("metadata."), "")
                with open(f"{place}/{item['path']}", "w", encoding="utf-8") as f:
                    f.write(value)

    def secret_volumes(self):
        """(directory, Secret's name, mode) of each"""
        spec = self.pod()["spec"]
        volumes = {v["name"]: v["secret"] for v in spec.get("volumes", []) if "secret" in v}
        return [(self.root + m["mountPath"], volumes[m["name"]]["secretName"], volumes[m["name"]].get("defaultMode", 0o644))
                for m in spec["containers"][0].get("volumeMounts", []) if m["name"] in volumes]

    def wait_for_secrets(self):
        """as the kubelet: no container starts before they are there"""
        with LOCK:
            while self.pod() and any(("secrets", self.ns, name) not in objects for _, name, _ in self.secret_volumes()):
                CHANGED.wait(1)

    def refresh(self, name):
        with LOCK:
            secret = objects.get(("secrets", self.ns, name))
            if not secret or not self.pod():
                return
            for place, which, mode in self.secret_volumes():
                for key, value in secret.get("data", {}).items() if which == name and os.path.isdir(place) else ():
                    with open(f"{place}/..new", "wb") as f:
                        os.fchmod(f.fileno(), mode)
                        f.write(base64.b64decode(value))
                    os.rename(f"{place}/..new", f"{place}/{key}")

    def environment(self):
        env = {"PATH": f"{DIR}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": self.root,
               "HOSTNAME": self.name_}
        with LOCK:
            pod = copy.deepcopy(self.pod())
            denied = SETTINGS["net"] == "enforced" and any(
                r == "networkpolicies" and n == self.ns and selects(o["spec"].get("podSelector", {}), pod)
                for (r, n, _), o in objects.items())
        if denied:
            env["COFFERDAM_FAKE_NET"] = "denied"
        for var in pod["spec"]["containers"][0].get("env", []):
            ref = var.get("valueFrom", {}).get("secretKeyRef")
            if ref:
                secret = objects.get(("secrets", self.ns, ref["name"]), {})
                value = secret.get("stringData", {}).get(ref["key"])
                if value is None:
                    value = base64.b64decode(secret.get("data", {}).get(ref["key"], "")).decode()
            else:
                value = self.local(var.get("value", ""))
            env[var["name"]] = value
        return env

    def work_dir(self):
        where = self.pod()["spec"]["containers"][0].get("workingDir")
        where = self.local(where) if where else self.root
        return where if os.path.isdir(where) else self.root

    def run(self):
        try:
            self.live()
        except Exception:  # pylint: disable=broad-except
            traceback.print_exc()

    def live(self):
        rule = self.rule()
        time.sleep(SETTINGS["start_seconds"])
        with LOCK:
            if not self.pod():
                return
        if rule.get("unschedulable"):
            self.status(conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                                     "message": rule["unschedulable"]}])
        elif rule.get("stay") == "Pending":
            with LOCK:
                waiting = {"waiting": {"reason": rule.get("waiting", "ContainerCreating"), "message": rule.get("message", "")}}
                self.status(conditions=[{"type": "PodScheduled", "status": "True"}],
                            containerStatuses=self.container_state(waiting))
        if rule.get("stay") == "Pending" or rule.get("unschedulable"):
            self.deadline()
            return
        self.wait_for_secrets()
        with LOCK:
            if not self.pod():
                return
        self.fill()
        with LOCK:
            state["ip"] += 1
            if not self.pod():
                return
            self.status(phase="Running", podIP=f"10.88.0.{state['ip'] % 250}", hostIP="127.0.0.1", startTime=now(),
                        conditions=[{"type": t, "status": "True"} for t in
                                    ("PodScheduled", "Initialized", "ContainersReady", "Ready")],
                        containerStatuses=self.container_state({"running": {"startedAt": now()}}, True))
        if "end" in rule:
            time.sleep(rule.get("seconds", 0.05))
            self.finish(rule["end"].get("exitCode", 0), rule["end"].get("reason"), rule.get("pod_reason"))
        elif rule.get("run") is False:
            self.deadline()
        else:
            self.work()

    def deadline(self):
        with LOCK:
            pod = self.pod()
            seconds = pod["spec"].get("activeDeadlineSeconds") if pod else None
        if not self.ended.wait(seconds) and seconds:
            self.finish(None, None, "DeadlineExceeded")

    def work(self):
        with LOCK:
            pod = self.pod()
            if not pod:
                return
            spec = copy.deepcopy(pod["spec"])
        first = spec["containers"][0]
        argv = [self.local(a) for a in first.get("command", []) + first.get("args", [])]
        if not argv:
            self.deadline()
            return
        reason = None
        with open(self.log_path, "ab") as out:
            try:
                self.process = subprocess.Popen(argv, cwd=self.work_dir(), env=self.environment(), stdin=subprocess.DEVNULL,
                                                stdout=out, stderr=out, start_new_session=True, preexec_fn=die_with_us)
                if self.dead:
                    self.kill()
                code = self.process.wait(timeout=spec.get("activeDeadlineSeconds"))
            except subprocess.TimeoutExpired:
                self.kill()
                self.process.wait()
                code, reason = None, "DeadlineExceeded"
            except OSError as e:
                out.write(f"{e}\n".encode())
                code = 128
        self.finish(128 - code if code is not None and code < 0 else code, None, reason)

    def finish(self, code, reason, pod_reason):
        with LOCK:
            pod = self.pod()
            if not pod or pod["status"]["phase"] in ("Succeeded", "Failed"):
                return
            status = {"phase": "Succeeded" if code == 0 else "Failed"}
            if pod_reason:
                status["reason"] = pod_reason
            shown = 137 if code is None else code
            ended = {"terminated": {"exitCode": shown, "reason": reason or ("Completed" if shown == 0 else "Error"),
                                    "startedAt": now(), "finishedAt": now()}}
            status["containerStatuses"] = self.container_state(ended)
            status["conditions"] = [{"type": "Ready", "status": "False", "reason": "PodCompleted"}]
            self.status(**status)
            job_pod_ended(pod)
        self.ended.set()

    def ask_to_end(self):
        for p in [self.process] + list(self.execs):
            if p and p.poll() is None:
                try:
                    os.killpg(p.pid, signal.SIGTERM)
                except ProcessLookupError:  # poll() says None too while another thread waits for it
                    pass

    def kill(self):
        self.dead = True
        self.ended.set()
        for p in [self.process] + list(self.execs):
            if p and p.poll() is None:
                try:
                    os.killpg(p.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass


# --- selectors -----------------------------------------------------------------------------------------------------


def selects(selector, obj):
    labels = obj["metadata"].get("labels", {})
    if any(labels.get(k) != v for k, v in (selector.get("matchLabels") or {}).items()):
        return False
    for e in selector.get("matchExpressions") or []:
        have, values = labels.get(e["key"]), e.get("values", [])
        if not {"In": have in values, "NotIn": have not in values, "Exists": have is not None,
                "DoesNotExist": have is None}[e["operator"]]:
            return False
    return True


def fits(obj, labels, fields):
    have = obj["metadata"].get("labels", {})
    for part in re.split(r",(?![^()]*\))", labels) if labels else []:
        m = re.fullmatch(r"\s*(!?)([\w./-]+)\s*(?:(=|==|!=)\s*([\w.-]*)|(in|notin)\s*\(([^)]*)\))?\s*", part)
        if not m:
            raise Refuse(400, "BadRequest", f"unable to parse requirement: {part}")
        value = have.get(m[2])
        if m[5]:
            good = (value in [v.strip() for v in m[6].split(",")]) == (m[5] == "in")
        elif m[3]:
            good = (value == m[4]) == (m[3] != "!=")
        else:
            good = (value is None) == bool(m[1])
        if not good:
            return False
    for part in fields.split(",") if fields else []:
        key, op, want = re.fullmatch(r"([\w.]+)(!=|==?)(.*)", part).groups()
        value = obj
        for k in key.split("."):
            value = (value or {}).get(k)
        if (str(value or "") == want) != (op != "!="):
            return False
    return True


# --- HTTP ----------------------------------------------------------------------------------------------------------

PATH = re.compile(r"^(?:/api/v1|/apis/(?P<group>[^/]+)/v1)(?:/namespaces/(?P<ns>[^/]+)(?=/))?/(?P<resource>[a-z]+)"
                  r"(?:/(?P<name>[^/]+)(?:/(?P<sub>[a-z]+))?)?$")


def denied(verb, resource, sub):
    def hit(rule):
        v, _, r = rule.partition(" ")
        return v in ("*", verb) and r in ("*", resource + ("/" + sub if sub else ""))
    if SETTINGS["allow"] is not None and not any(hit(r) for r in SETTINGS["allow"]):
        return True
    return any(hit(r) for r in SETTINGS["deny"])


class Cut(Exception):
    pass


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        pass

    def setup(self):
        self.request.settimeout(60)
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.request = self.server.tls.wrap_socket(self.request, server_side=True)
        self.request.settimeout(600)
        super().setup()

    def finish(self):
        try:
            super().finish()
            self.request.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.request.close()

    # answers
    def answer(self, code, body, kind="application/json", headers=()):
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        cut = (self.rule or {}).get("cut_after")
        self.entry["code"] = code
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if cut is not None and cut < len(body):
            self.wfile.write(body[:cut])
            raise Cut
        self.wfile.write(body)

    def refuse(self, r):
        self.answer(r.code, r.body(), headers=[("Retry-After", str(r.retry))] if r.retry else ())

    def who(self):
        token = self.headers.get("Authorization", "")
        user = None
        if token.startswith("Bearer "):
            user = SETTINGS["tokens"].get(token[7:])
        elif token.startswith("Basic "):
            user = "basic:" + base64.b64decode(token[6:]).decode()
        else:
            cert = self.request.getpeercert()
            for rdn in cert.get("subject", ()) if cert else ():
                user = dict(rdn).get("commonName", user)
        if user is None:
            raise Refuse(401, "Unauthorized", "Unauthorized")
        if "Impersonate-User" in self.headers:
            user = self.headers["Impersonate-User"] + "".join("+" + g for g in self.headers.get_all("Impersonate-Group") or [])
        return user

    def serve(self):
        url = urllib.parse.urlsplit(self.path)
        self.query = urllib.parse.parse_qs(url.query, keep_blank_values=True)
        self.url_path = urllib.parse.unquote(url.path)
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length) if length else b""
        self.rule = None
        self.entry = {"method": self.command, "path": self.url_path, "query": url.query}
        self.close_connection = self.headers.get("Connection", "").lower() == "close"
        try:
            self.body = json.loads(raw) if raw else {}
            if self.url_path.startswith("/fake/"):
                self.control()
                return
            with LOCK:
                self.entry["body"] = copy.deepcopy(self.body)
                log.append(self.entry)
                self.rule = self.fault()
            self.entry["user"] = self.who()
            if not self.misbehave():
                self.route()
        except Refuse as r:
            self.refuse(r)
        except (Cut, ConnectionError, ssl.SSLError, socket.timeout):
            self.close_connection = True
            self.cut()

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = serve  # noqa: N815

    def cut(self):
        try:
            self.wfile.flush()
            self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.request.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def fault(self):
        for rule in faults:
            if rule.get("method", self.command) != self.command or not re.search(rule.get("path", ""), self.path):
                continue
            if rule.get("after", 0) > 0:
                rule["after"] -= 1
                return None
            if rule.get("times", 1) == 0:
                return rule
            if rule.get("left", rule.get("times", 1)) > 0:
                rule["left"] = rule.get("left", rule.get("times", 1)) - 1
                return rule
        return None

    def misbehave(self):
        """Return: whether the request was answered"""
        rule = self.rule
        if not rule:
            return False
        time.sleep(rule.get("slow", 0))
        if "gather" in rule:
            with LOCK:
                rule["came"] = rule.get("came", 0) + 1
                CHANGED.notify_all()
                CHANGED.wait_for(lambda: rule["came"] >= rule["gather"], 60)
        if rule.get("done"):
            try:
                with LOCK:
                    self.do(self.parse(), quiet=True)
            except Refuse:
                pass
        if rule.get("cut"):
            raise Cut
        if "bytes" in rule:
            self.wfile.write(rule["bytes"].encode())
            for _ in range(rule.get("repeat", 0)):
                self.wfile.write(rule["again"].encode() * rule.get("at_once", 1))
                self.wfile.flush()
                time.sleep(rule.get("pause", 0))
            self.wfile.write(rule.get("last", "").encode())
            self.wfile.flush()
            time.sleep(rule.get("open", 0))
            raise Cut
        if "status" in rule and "exec" not in rule:
            refusal = Refuse(rule["status"], rule.get("reason", ""), rule.get("message", "as the test wants it"),
                             rule.get("retry_after", 0))
            if rule.get("html"):
                self.answer(rule["status"], b"<html>a proxy's page\n" + b"x" * 3000, "text/html")
                return True
            raise refusal
        whole = b"" if rule.get("empty") else rule["raw"].encode() if "raw" in rule and "exec" not in rule else None
        if "huge" in rule:
            whole = b'{"x":"' + b"x" * rule["huge"] + b'"}'
        if "many" in rule:
            whole = b'{"items":[' + b"{}," * rule["many"] + b"{}]}"
        if "deep" in rule:
            whole = b'{"a":' * rule["deep"] + b"1" + b"}" * rule["deep"]
        if whole is not None:
            self.answer(200, whole)
        return whole is not None

    def parse(self):
        m = PATH.match(self.url_path)
        if self.url_path.startswith("/api/v1/namespaces/"):  # the namespace itself
            parts = self.url_path.split("/")
            if len(parts) == 5:
                return {"ns": "", "resource": "namespaces", "name": parts[4], "sub": None}
        if not m or m["resource"] not in KINDS:
            raise Refuse(404, "NotFound", "the server could not find the requested resource")
        d = m.groupdict()
        d["ns"] = d["ns"] or ""
        return d

    def verb(self, where):
        if self.command == "GET" and where["sub"] is None:
            return "watch" if "watch" in self.query else "get" if where["name"] else "list"
        if self.command == "DELETE" and not where["name"]:
            return "deletecollection"
        return {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[self.command]

    def route(self):
        if self.url_path == "/version":
            major, minor = SETTINGS["version"].lstrip("v").split(".")[:2]
            self.answer(200, {"gitVersion": SETTINGS["version"], "major": major, "minor": minor})
            return
        if self.url_path.endswith("/selfsubjectaccessreviews"):
            a = self.body["spec"]["resourceAttributes"]
            ok = not denied(a["verb"], a["resource"], a.get("subresource", ""))
            self.answer(201, dict(self.body, status={"allowed": ok}))
            return
        where = self.parse()
        if denied(self.verb(where), where["resource"], where["sub"]):
            full = where["resource"] + ("/" + where["sub"] if where["sub"] else "")
            raise Refuse(403, "Forbidden", f'{where["resource"]} "{where["name"] or ""}" is forbidden: User '
                         f'"{self.entry["user"]}" cannot {self.verb(where)} resource "{full}" in API group "" in the '
                         f'namespace "{where["ns"]}"')
        if where["sub"] == "exec":
            Exec(self, where).serve()
        elif where["sub"] == "log":
            self.logs(where)
        elif "watch" in self.query:
            self.watch(where)
        else:
            self.do(where)

    def q(self, name, default=""):
        return self.query.get(name, [default])[0]

    def do(self, where, quiet=False):
        resource, ns, name = where["resource"], where["ns"], where["name"]
        with LOCK:
            code = 200
            if self.command == "GET" and name:
                out = find(resource, ns, name)
            elif self.command == "GET":
                out = self.list(resource, ns)
            elif self.command == "POST":
                code, out = 201, create(resource, ns, copy.deepcopy(self.body))
            elif self.command == "PUT":
                out = self.update(resource, ns, name)
            elif self.command == "PATCH":
                out = find(resource, ns, name)
                merge(out, self.body)
                record("MODIFIED", resource, out)
            elif name:
                out = delete(resource, ns, name, self.body)
            else:
                for (r, n, o), obj in list(objects.items()):
                    if r == resource and n == ns and fits(obj, self.q("labelSelector"), self.q("fieldSelector")):
                        delete(r, n, o, self.body)
                out = {"kind": "Status", "apiVersion": "v1", "status": "Success"}
            out = copy.deepcopy(out)
        if not quiet:
            self.answer(code, out)

    def update(self, resource, ns, name):
        out = find(resource, ns, name)
        version = self.body.get("metadata", {}).get("resourceVersion")
        if version and version != out["metadata"]["resourceVersion"]:
            raise Refuse(409, "Conflict", f'Operation cannot be fulfilled on {resource} "{name}": the object has been '
                         "modified; please apply your changes to the latest version and try again")
        kept = {k: out["metadata"][k] for k in ("uid", "creationTimestamp")}
        new = copy.deepcopy(self.body)
        new["metadata"].update(kept, namespace=ns, name=name)
        objects[(resource, ns, name)] = new
        record("MODIFIED", resource, new)
        return new

    def list(self, resource, ns):
        kind, version = KINDS[resource]
        found = [o for (r, n, _), o in sorted(objects.items()) if r == resource and (not ns or n == ns) and
                 fits(o, self.q("labelSelector"), self.q("fieldSelector"))]
        start, limit = 0, int(self.q("limit", "0"))
        if self.q("continue"):
            at, _, start = self.q("continue").partition("/")
            if int(at) < state["forgotten"]:
                raise Refuse(410, "Expired", "The provided continue parameter is too old")
            start = int(start)
        meta = {"resourceVersion": str(state["version"])}
        if limit and start + limit < len(found):
            meta["continue"] = f"{state['version']}/{start + limit}"
            found = found[start:start + limit]
        else:
            found = found[start:]
        return {"kind": kind + "List", "apiVersion": version, "metadata": meta, "items": found}

    # streams
    def begin_stream(self, kind):
        self.entry["code"] = 200
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.cut_number, self.sent = state["cut"], 0

    def chunk(self, data):
        limit = (self.rule or {}).get("cut_after")
        if limit is not None and self.sent + len(data) > limit:
            data = data[:limit - self.sent]
            if data:
                self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            raise Cut
        self.sent += len(data)
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def end_stream(self):
        self.wfile.write(b"0\r\n\r\n")

    def watch(self, where):
        resource, ns, name = where["resource"], where["ns"], where["name"]
        rule = self.rule or {}
        version = int(self.q("resourceVersion", "0") or 0) or state["version"]
        gone = rule.get("gone") or ("event" if version < state["forgotten"] else None)
        expired = Refuse(410, "Expired", f"too old resource version: {version} ({state['version']})")
        if gone == "status":
            raise expired
        until = time.time() + float(self.q("timeoutSeconds", "600"))
        self.begin_stream("application/json")
        if gone:
            self.chunk(json.dumps({"type": "ERROR", "object": expired.body()}).encode() + b"\n")
            self.end_stream()
            return
        if "long_line" in rule:
            self.chunk(b'{"x": "' + b"x" * rule["long_line"])
        if "line" in rule:
            self.chunk(rule["line"].encode() + b"\n")
        self.request.setblocking(True)
        cut_number = state["cut"] + state["cut_watches"]
        seen, marked = version, time.time()
        while time.time() < until:
            with LOCK:
                news = [h for h in history if h[0] > seen]
                if not news:
                    CHANGED.wait(0.1)
                    news = [h for h in history if h[0] > seen]
                if state["cut"] + state["cut_watches"] != cut_number:
                    raise Cut
                seen = state["version"]
            if rule.get("silent"):
                continue
            for _, r, kind, obj in news:
                meta = obj["metadata"]
                if r == resource and meta.get("namespace", "") == ns and (not name or meta["name"] == name) and \
                        fits(obj, self.q("labelSelector"), self.q("fieldSelector")):
                    self.chunk(json.dumps({"type": kind, "object": obj}).encode() + b"\n")
            if self.q("allowWatchBookmarks") and time.time() - marked > 0.5:
                marked = time.time()
                kind, api = KINDS[resource]
                mark = {"kind": kind, "apiVersion": api, "metadata": {"resourceVersion": str(seen)}}
                self.chunk(json.dumps({"type": "BOOKMARK", "object": mark}).encode() + b"\n")
                self.entry["bookmark"] = seen
        self.end_stream()

    def logs(self, where):
        with LOCK:
            pod = find("pods", where["ns"], where["name"])
            box = containers[pod["metadata"]["uid"]]
            names = [c["name"] for c in pod["spec"]["containers"]]
            wanted = self.q("container") or names[0]
            if wanted not in names:
                raise Refuse(400, "BadRequest", f"container {wanted} is not valid for pod {where['name']}")
            if pod["status"]["phase"] == "Pending":
                raise Refuse(400, "BadRequest", f'container "{wanted}" in pod "{where["name"]}" is waiting to start: '
                             "ContainerCreating")
        follow = self.q("follow") in ("true", "1")
        self.begin_stream("text/plain")
        at = 0
        while True:
            over = not follow or box.ended.is_set()
            if os.path.exists(box.log_path):
                with open(box.log_path, "rb") as f:
                    f.seek(at)
                    while True:
                        data = f.read(65536)
                        if not data:
                            break
                        at += len(data)
                        self.chunk(data)
            if over:
                break
            with LOCK:
                if state["cut"] != self.cut_number:
                    raise Cut
            time.sleep(0.05)
        self.end_stream()

    def control(self):
        word = self.url_path.removeprefix("/fake/")
        with LOCK:
            out = {}
            if word == "set":
                SETTINGS.update(self.body)
            elif word == "faults":
                faults[:] = self.body
            elif word == "compact":
                state["version"] += 1
                state["forgotten"] = state["version"]
                history.clear()
            elif word == "cut":
                state["cut_watches" if self.body.get("watches") else "cut"] += 1
                CHANGED.notify_all()
            elif word == "forget":
                for (r, n, o) in [k for k in objects if k[0] not in ("namespaces", "nodes")]:
                    remove(r, n, o)
            elif word == "status":
                pod = find("pods", self.body["ns"], self.body["name"])
                merge(pod["status"], self.body["status"])
                record("MODIFIED", "pods", pod)
            elif word == "object":
                obj = self.body["object"]
                meta = obj["metadata"]
                meta.setdefault("uid", str(uuid.uuid4()))
                meta.setdefault("creationTimestamp", now())
                there = (self.body["resource"], meta.get("namespace", ""), meta["name"])
                known = there in objects
                objects[there] = obj
                record("MODIFIED" if known else "ADDED", self.body["resource"], obj)
            elif word == "log":
                self.answer(200, "".join(json.dumps(e) + "\n" for e in log).encode(), "text/plain")
                return
            elif word == "objects":
                out = [dict(o, resource=r) for (r, _, _), o in objects.items()]
            else:
                raise Refuse(404, "NotFound", "no such thing to script")
        self.answer(200, out)


# --- exec ----------------------------------------------------------------------------------------------------------


class Exec:
    """one command over a WebSocket; channels: 0 stdin, 1 stdout, 2 stderr, 3 status, 4 resize; v5: 255 N closes N"""

    def __init__(self, handler, where):
        self.h, self.rule = handler, handler.rule or {}
        self.write_lock = threading.Lock()
        with LOCK:
            pod = find("pods", where["ns"], where["name"])
            names = [c["name"] for c in pod["spec"]["containers"]]
            wanted = handler.q("container") or names[0]
            if wanted not in names:
                raise Refuse(400, "BadRequest", f"container {wanted} is not valid for pod {where['name']}")
            if pod["status"]["phase"] != "Running":
                raise Refuse(500, "InternalError", "container not running")
            self.box = containers[pod["metadata"]["uid"]]
        offered = [p.strip() for p in handler.headers.get("Sec-WebSocket-Protocol", "").split(",")]
        self.protocol = next((p for p in offered if p in SETTINGS["exec_protocols"]), None)
        self.closed = False
        self.master = None
        self.sent = 0
        self.unread = threading.Event()

    def serve(self):
        h = self.h
        if h.headers.get("Upgrade", "").lower() != "websocket":
            raise Refuse(400, "BadRequest", "Upgrade request required")
        if not self.protocol:
            h.answer(403, b"")
            h.close_connection = True
            return
        key = h.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        h.entry["code"] = 101
        h.entry["protocol"] = self.protocol
        h.send_response(101)
        h.send_header("Upgrade", "websocket")
        h.send_header("Connection", "Upgrade")
        h.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        h.send_header("Sec-WebSocket-Protocol", self.rule.get("protocol", self.protocol))
        h.end_headers()
        h.wfile.flush()
        h.close_connection = True
        h.cut_number = state["cut"]
        self.run()

    def frame(self, data, op=2, raw=None):
        n = len(data)
        head = bytes([0x80 | op]) + (bytes([n]) if n < 126 else bytes([126]) + struct.pack(">H", n) if n < 65536 else
                                     bytes([127]) + struct.pack(">Q", n))
        with self.write_lock:
            self.h.wfile.write(raw if raw is not None else head + data)
            self.h.wfile.flush()

    def send(self, channel, data):
        kind = self.rule.get("exec")
        if kind == "silent":
            return
        if kind == "cut" and channel in (1, 2):
            left = self.rule.get("cut_after", 0) - self.sent
            if len(data) >= left:
                if left > 0:
                    self.frame(bytes([channel]) + data[:left])
                self.h.cut()
                raise Cut
        self.sent += len(data)
        self.frame(bytes([channel]) + data)

    def misbehave(self):
        """before anything of the command is sent"""
        kind = self.rule.get("exec")
        if kind == "huge":
            self.frame(b"", raw=b"\x82\x7f" + struct.pack(">Q", 1 << 40) + b"\1x")
        elif kind == "bad_frame":
            self.frame(b"", raw=b"\xf2\x05abcde")
        elif kind == "bad_opcode":
            self.frame(b"", raw=b"\x83\x05abcde")
        elif kind == "close":
            self.frame(struct.pack(">H", 1011) + b"as the test wants it", op=8)

    def run(self):
        h = self.h
        argv = [self.box.local(a) for a in h.query.get("command", [])]
        tty = h.q("tty") in ("1", "true")
        want = {n: h.q(n) in ("1", "true") for n in ("stdin", "stdout", "stderr")}
        if self.protocol.startswith("v4"):  # as real servers do
            for channel in (c for c, n in enumerate(("stdin", "stdout", "stderr")) if want[n]):
                self.send(channel, b"")
        self.misbehave()
        process, pipes, failure = None, {}, None
        try:
            slave = None
            if tty:
                self.master, slave = pty.openpty()
            process = subprocess.Popen(
                argv, cwd=self.box.work_dir(), env=dict(self.box.environment(), **({"TERM": "xterm"} if tty else {})),
                stdin=slave if tty else subprocess.PIPE if want["stdin"] else subprocess.DEVNULL,
                stdout=slave if tty else subprocess.PIPE, stderr=slave if tty else subprocess.PIPE, start_new_session=True,
                preexec_fn=own_terminal if tty else die_with_us)
            if tty:
                os.close(slave)
                pipes = {self.master: 1}
            else:
                pipes = {process.stdout.fileno(): 1, process.stderr.fileno(): 2}
            self.box.execs.add(process)
        except OSError as e:
            failure = e
        self.process = process
        reader = threading.Thread(target=self.read, daemon=True)
        reader.start()
        try:
            self.copy_out(pipes)
            if failure:
                status = {"status": "Failure", "reason": "InternalError", "code": 500,
                          "message": "error executing command in container: failed to exec in container: failed to start "
                          f'exec: OCI runtime exec failed: exec failed: unable to start container process: exec: "{argv[0]}": '
                          "executable file not found in $PATH: unknown"}
            else:
                code = process.wait()
                code = 128 - code if code < 0 else code
                if self.rule.get("exec") == "abrupt" and self.unread.wait(self.rule.get("seconds", 1)):
                    self.h.cut()
                    raise Cut
                status = {"metadata": {}, "status": "Success"} if code == 0 else {
                    "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
                    "message": f"command terminated with non-zero exit code: exit status {code}",
                    "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]}}
            kind = self.rule.get("exec")
            if kind == "status":
                self.frame(b"\3" + self.rule["raw"].encode())
            elif kind == "text":
                self.frame(b"\3" + json.dumps(status).encode(), op=1)
            elif kind == "silent":
                time.sleep(self.rule.get("seconds", 120))
            elif kind != "no_status":
                self.send(3, json.dumps(status).encode())
            self.frame(struct.pack(">H", 1000), op=8)
            reader.join(2)
        finally:
            if process:
                if process.poll() is None:
                    try:
                        os.killpg(process.pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                    process.wait()
                self.box.execs.discard(process)
            if self.master is not None:
                os.close(self.master)

    def copy_out(self, pipes):
        while pipes:
            ready, _, _ = select.select(list(pipes), [], [], 0.1)
            if state["cut"] != self.h.cut_number or self.box.dead:
                self.h.cut()
                raise Cut
            for fd in ready:
                try:
                    data = os.read(fd, 32768)
                except OSError:
                    data = b""
                if data:
                    self.send(pipes[fd], data)
                else:
                    del pipes[fd]
            if self.closed and not ready:
                raise Cut

    def need(self, n):
        data = b""
        while len(data) < n:
            part = self.h.rfile.read(n - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def read(self):
        try:
            while True:
                a, b = self.need(2)
                n = b & 127
                if n == 126:
                    n = struct.unpack(">H", self.need(2))[0]
                elif n == 127:
                    n = struct.unpack(">Q", self.need(8))[0]
                if not b & 128:
                    raise ValueError("a frame of the client that is not masked")
                mask = self.need(4)
                data = self.need(n)
                data = (int.from_bytes(data, "little") ^ int.from_bytes((mask * (n // 4 + 1))[:n], "little")).to_bytes(n, "little")
                self.take(a & 15, data)
        except (EOFError, OSError, ValueError):
            self.closed = True

    def take(self, op, data):
        if op == 8:
            self.closed = True
            raise EOFError
        if op == 9 and self.rule.get("exec") != "silent":
            self.frame(data, op=10)
        if op not in (1, 2) or not data or not self.process:
            return
        channel, rest = data[0], data[1:]
        if channel == 0 and rest:
            self.feed(rest)
        elif channel == 255 and rest[:1] == b"\0" and self.protocol.startswith("v5"):
            if self.process.stdin:
                self.process.stdin.close()
        elif channel == 4 and self.master is not None:
            size = json.loads(rest)
            fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", size["Height"], size["Width"], 0, 0))

    def feed(self, data):
        try:
            if self.master is not None:
                os.write(self.master, data)
            elif self.process.stdin and not self.process.stdin.closed:
                self.process.stdin.write(data)
                self.process.stdin.flush()
        except OSError:
            self.unread.set()


# --- start ---------------------------------------------------------------------------------------------------------


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        kind = sys.exc_info()[0]
        if not issubclass(kind, (OSError, Cut)):
            traceback.print_exc()


def ssl_run(*args):
    subprocess.run(["openssl", *args], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=DIR)


def certificates():
    ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    ssl_run("req", "-x509", *ec, "-days", "30", "-subj", "/CN=fake cluster", "-keyout", "ca.key", "-out", "ca.crt")
    with open(f"{DIR}/san", "w", encoding="utf-8") as f:
        f.write("subjectAltName=DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1\n")
    for name, subject, more in (("server", "/CN=kube-apiserver", ["-extfile", "san"]), ("cert", "/O=testers/CN=cert-user", [])):
        ssl_run("req", *ec, "-subj", subject, "-keyout", f"{name}.key", "-out", f"{name}.csr")
        ssl_run("x509", "-req", "-days", "30", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
                "-out", f"{name}.crt", *more)


def write(name, text):
    path = f"{DIR}/{name}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write(text)
    os.rename(path + ".new", path)


def stop(*_):
    for box in list(containers.values()):
        box.kill()
    shutil.rmtree(f"{DIR}/pods", ignore_errors=True)
    os._exit(0)


def watch_parent():
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.2)
    stop()


def main():
    os.makedirs(DIR, exist_ok=True)
    if len(sys.argv) > 2:
        SETTINGS.update(json.loads(sys.argv[2]))
    certificates()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(f"{DIR}/server.crt", f"{DIR}/server.key")
    tls.load_verify_locations(f"{DIR}/ca.crt")
    tls.verify_mode = ssl.CERT_OPTIONAL
    tls.set_alpn_protocols(["http/1.1"])
    server = Server(("127.0.0.1", 0), Handler)
    server.tls = tls
    port = server.server_address[1]
    with LOCK:
        for ns in ("default", "test"):
            objects[("namespaces", "", ns)] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {
                "name": ns, "uid": str(uuid.uuid4()), "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
                "status": {"phase": "Active"}}
            record("ADDED", "namespaces", objects[("namespaces", "", ns)])
        objects[("nodes", "", "node1")] = {"apiVersion": "v1", "kind": "Node", "metadata": {
            "name": "node1", "uid": str(uuid.uuid4()), "labels": {"kubernetes.io/hostname": "node1"}}}
    write("kubeconfig", f"""apiVersion: v1
kind: Config
current-context: fake
clusters: [{{name: fake, cluster: {{server: "https://127.0.0.1:{port}", certificate-authority: ca.crt}}}}]
users:
- {{name: admin, user: {{token: admin-token}}}}
- {{name: cert, user: {{client-certificate: cert.crt, client-key: cert.key}}}}
contexts:
- {{name: fake, context: {{cluster: fake, user: admin, namespace: test}}}}
- {{name: cert, context: {{cluster: fake, user: cert, namespace: test}}}}
""")
    with open(f"{DIR}/ca.crt", encoding="utf-8") as f:
        write("account/ca.crt", f.read())
    write("account/token", "admin-token\n")
    write("account/namespace", "test")
    for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(s, stop)
    threading.Thread(target=watch_parent, daemon=True).start()
    write("port", str(port))
    write("pid", str(os.getpid()))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while True:
        signal.pause()


main()
