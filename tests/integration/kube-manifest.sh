#!/usr/bin/env bash
# What driver kubernetes would make: files of tests/assets/kube-golden, the rules of PodSecurity, the schemas, refusals
# UPDATE=1 writes the files anew; look at the difference.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
golden=$TOP/tests/assets/kube-golden
models=${COFFERDAM_SERVERS:-$TOP/build/servers}/npm
export KUBECONFIG=/nonexistent

checks() { /usr/bin/python3 "$TOP/tests/integration/kube-checks.py" "$@"; }
manifest() { "$C" manifest --time 1700000000 "$@"; }

is_golden() {
        manifest --run "$golden/$1.yaml" >out
        [ -z "${UPDATE-}" ] || cp out "$golden/$1.out"
        diff -u "$golden/$1.out" out || fail "not as $1.out"
}

json_is_yaml() {
        manifest "$golden/$1.yaml" >out.yaml
        manifest --json "$golden/$1.yaml" >out.json
        checks same out.yaml out.json || fail "$1"
}

# red when any wall of pod.c is taken away
is_restricted() {
        manifest --json "$golden/$1.yaml" >out.json
        checks restricted out.json >log || fail "$(cat log)"
}

checker_refuses_bad_pods() {
        local n=0 pods
        checks bad >pods.txt
        while read -r pods; do
                n=$((n + 1))
                echo "$pods" >pod.json
                status 1 checks restricted pod.json >reasons
                [ -s reasons ] || fail "no reason for $pods"
        done <pods.txt
        [ "$n" -ge 30 ] || fail "only $n pods"
        manifest --run --json "$golden/bare.yaml" >pod.json
        status 1 checks restricted pod.json >log
}

fits_schema() {
        [ -e "$models/kubernetes-models/package.json" ] || skip 'offline: the schemas were not fetched'
        for name in "$golden"/*.yaml; do
                manifest --json "$name" >"$(basename "$name").json"
        done
        checks schema "$models" ./*.json "$TOP"/images/kubernetes/*.yaml >log || fail "$(cat log)"
        sed -i 's/"restartPolicy"/"restrtPolicy"/' full.yaml.json
        status 1 checks schema "$models" full.yaml.json >log
        has "$(cat log)" 'restrtPolicy: unknown field'
}

images_are_what_is_printed() {
        manifest --json --admin "$golden/minimal.yaml" >a.json
        manifest --json --admin --model-auth proxied "$golden/minimal.yaml" >b.json
        /usr/bin/python3 - "$TOP/images/kubernetes" a.json b.json <<'PY' || fail 'not the same objects'
import glob, json, os, sys, yaml
top, a, b = sys.argv[1:]
files = {}
for name in glob.glob(os.path.join(top, "*.yaml")):
    if os.path.basename(name) in ("auth-proxy.yaml", "managed-settings.yaml"):
        continue
    for doc in yaml.safe_load_all(open(name)):
        key = doc["kind"], doc["metadata"]["name"]
        assert files.setdefault(key, doc) == doc, key
printed = {(d["kind"], d["metadata"]["name"]): d for d in json.load(open(a)) + json.load(open(b))}
for key in files.keys() | printed.keys():
    assert files.get(key) == printed.get(key), key
PY
}

# no right to network policies, none to read Secrets, nothing of the whole cluster
rights_are_narrow() {
        manifest --json --admin "$golden/minimal.yaml" >a.json
        lacks "$(cat a.json)" ClusterRole
        /usr/bin/python3 - a.json <<'PY' || fail rights
import json, sys
for role in (d for d in json.load(open(sys.argv[1])) if d["kind"] == "Role"):
    for rule in role["rules"]:
        assert not {"networkpolicies", "*"} & set(rule["resources"]), rule
        assert "*" not in rule["verbs"] and not {"escalate", "bind", "impersonate"} & set(rule["verbs"]), rule
        if "secrets" in rule["resources"]:
            assert not {"get", "list", "watch"} & set(rule["verbs"]), rule
PY
}

# refuse WANT LINE...: the manifest of minimal.yaml with LINEs below kubernetes
refuse() {
        local want=$1 line
        shift
        {
                printf 'image: i\nworkspace: {target: /w}\nkubernetes:\n  namespace: n\n'
                for line in "$@"; do printf '  %s\n' "$line"; done
        } >bad.yaml
        status 1 manifest bad.yaml >out 2>err
        eq '' "$(cat out)" stdout
        eq 1 "$(wc -l <err)" lines
        has "$(cat err)" "$want"
}

mistakes_are_said() {
        refuse 'env_from_secret[0]' 'env_from_secret: [A=s]'
        refuse 'needs a non-empty name, secret and key' 'env_from_secret: ["A=s/"]'
        refuse "unknown managed settings preset 'x', known presets: [a, b]" 'managed_settings: x' 'managed_settings_presets: {a: c, b: d}'
        refuse 'known presets: []' 'managed_settings: x'
        refuse 'allow_writable_root requires a sandboxed pod' 'sandboxed: false' 'allow_writable_root: true'
        refuse 'deadline_margin requires a sandboxed pod' 'sandboxed: false' 'deadline_margin: 60s'
        refuse "pod label 'app.kubernetes.io/component' is reserved: ironflow sets it" 'labels: {app.kubernetes.io/component: x}'
        refuse 'runtime class must not be empty' 'runtime_class: " "'
        refuse 'resume_environment needs environment_volume' 'resume_environment: e'
        refuse 'environment_id must only contain' 'resume_environment: E' 'environment_volume: /e'
        refuse "claude profile subdir 'projects' would hide the sessions" 'sessions_volume: s' 'claude_profiles: ["c:projects"]'
        refuse "cannot be mounted at reserved path '/etc/claude-code'" 'volumes: ["type=pvc,source=a,target=/etc/claude-code"]'
        refuse "effect 'Never' is unknown" 'tolerations: ["a:Never"]'
        refuse 'want NAME/UID' 'owner_pod: a'
        refuse 'run_as_user' 'run_as_user: 0'
}

plain_secrets_are_refused() {
        local line
        for line in 'ANTHROPIC_API_KEY: sk-ant-api-1' 'CLAUDE_CODE_OAUTH_TOKEN: t' 'X: sk-ant-oat-1' 'IRONFLOW_CLAUDE_CREDENTIALS: "{}"'; do
                printf 'image: i\nworkspace: {target: /w}\nenv: {%s}\n' "$line" >bad.yaml
                status 1 manifest bad.yaml >out 2>err
                has "$(cat err)" "sandboxed pod refuses"
                lacks "$(cat err)" sk-ant-
        done
}

what_no_pod_is() {
        local text want
        while IFS='|' read -r text want; do
                printf '%b' "$text" >bad.yaml
                status 1 manifest bad.yaml >out 2>err
                has "$(cat err)" "$want"
        done <<'ROWS'
workspace: {target: /w}\n|image: driver kubernetes needs one
rootfs: /tmp\nworkspace: {target: /w}\n|rootfs: the root of a pod is an image
image: i\nuser: root\n|must be numeric
image: i\nuser: "0"\n|greater than 0
image: i\nhost_state: auto\n|no host file system
image: i\nworkspace: {target: /w}\nmounts: ["type=bind,source=/etc,target=/e"]\n|no files of this host
ROWS
}

# red without add_volume(), its merge_note() or narrow_key(), the refusal of run_plan()
volumes_by_mount() {
        local a=type=pvc,source=data,target=/data,sub_path=x,readonly b=source=s,target=/s,type=secret c=type=configmap,source=cm,key=k,target=/cm
        printf 'image: i\nworkspace: {target: /w}\n' >plain.yaml
        { cat plain.yaml && printf 'kubernetes: {volumes: ["%s", "%s", "%s"]}\n' $a $b $c; } >volumes.yaml
        { cat plain.yaml && printf 'mounts: ["%s", "type=tmpfs,target=/m", "%s", "%s"]\n' $a $b $c; } >mounts.yaml
        manifest --mount type=tmpfs,target=/m volumes.yaml >want
        has "$(cat want)" 'claimName: data'
        manifest --mount $a --mount type=tmpfs,target=/m --mount $b --mount $c plain.yaml >out
        diff -u want out || fail 'options'
        manifest mounts.yaml >out
        diff -u want out || fail 'a specification'
        status 1 manifest --tier workflow mounts.yaml >out 2>err
        has "$(cat err)" 'only the operator may set this'
        mkdir repository
        printf 'mounts: ["%s"]\n' $a >repository/.cofferdam.yaml
        "$C" spec show -w repository >out 2>err
        lacks "$(cat out)" 'source=data'
        has "$(cat out err)" 'a repository may only narrow'
        status 125 "$C" run -d native -w repository --mount $a -- true >out 2>err
        eq 1 "$(wc -l <err)"
        has "$(cat err)" 'they are for --driver kubernetes'
        status 2 "$C" run --image i --mount type=pvc,source=data,target=/data,colour=red -d kubernetes -- true >out 2>err
        has "$(cat err)" "unknown field 'colour'"
        printf 'mounts: [{type: pvc, source: data, target: /data}]\n' >map.yaml
        status 1 manifest plain.yaml map.yaml >out 2>err
        has "$(cat err)" 'a volume of a cluster is one line'
}

# what comes with each command, or lies in the Secret, is in no object that is printed
files_of_a_run() {
        export DEPLOY_KEY=hunter2-key PASSWORD=hunter2-word
        manifest "$golden/secrets.yaml" >out
        lacks "$(cat out)" hunter2
        lacks "$(cat out)" PASSWORD
        while IFS='|' read -r rest want; do
                { cat "$golden/secrets.yaml" && printf '%b' "$rest"; } >bad.yaml
                status 1 manifest bad.yaml >out 2>err
                eq 1 "$(wc -l <err)" "$(cat err)"
                has "$(cat err)" "$want"
        done <<'ROWS'
  - {name: ..A, from: {env: DEPLOY_KEY}, as: file}\n|secrets[3]: '..A' cannot be a key of a Secret
  - {name: A, from: {env: DEPLOY_KEY}, as: file, path: /etc/a}\n|secrets[3].path: '/etc/a' is in no volume of the pod
  - {name: A, from: {env: DEPLOY_KEY}, as: file, path: /tmp}\n|'/tmp' is in no volume of the pod
  - {name: A, from: {env: DEPLOY_KEY}, as: file, path: /workspace/a}\n|'/workspace/a' is in no volume of the pod
kubernetes: {service_account: a}\n|use 'as: env', or leave service_account out
kubernetes: {sandboxed: false}\n|use 'as: env', or a sandboxed pod
kubernetes: {volumes: ["type=secret,source=a,target=/run/secrets/a"]}\n|reserved path '/run/secrets/a'
mounts: ["type=tmpfs,target=/run/secrets"]\n|/run/secrets
ROWS
        sed 's|/home/claude/.ssh|/cache|; $a mounts: ["type=tmpfs,target=/cache"]' "$golden/secrets.yaml" >good.yaml
        manifest good.yaml >out
}

# The script in front of the command, with the paths of this test in place of the pod's. A ConfigMap volume has its keys as
# links into ..data; only those are copied, and the credentials last.
start_script_copies_profiles() {
        local p=$W/profile c=$W/home
        mkdir -p "$p/0/..2026" "$p/1/..2026" "$c"
        printf '{"a": 1}' >"$p/0/..2026/settings.json"
        printf 'hidden' >"$p/0/..2026/.mcp.json"
        printf 'from the profile' >"$p/0/..2026/.credentials.json"
        printf 'rule' >"$p/1/..2026/rust.md"
        ln -s ..2026 "$p/0/..data" && ln -s ..2026 "$p/1/..data"
        ln -s ..data/settings.json "$p/0/" && ln -s ..data/.mcp.json "$p/0/" && ln -s ..data/.credentials.json "$p/0/"
        ln -s ..data/rust.md "$p/1/"
        manifest --run --json "$golden/full.yaml" >out.json
        /usr/bin/python3 - "$p" <<'PY'
import json, sys
script = json.load(open("out.json"))[-1]["spec"]["containers"][0]["command"][2]
# what the kubelet makes of it
open("script", "w").write(script.replace("$$", "$").replace("/etc/ironflow/claude-profile", sys.argv[1]))
PY
        umask 022
        # shellcheck disable=SC2016 # for the shell inside
        env -i PATH="$PATH" HOME="$c" IRONFLOW_CLAUDE_CREDENTIALS="it's %s \$x" \
                sh -c "$(cat script)" sh sh -c 'echo "$# $1 ${IRONFLOW_CLAUDE_CREDENTIALS-unset} $(umask)"' sh 'a b' >out
        eq '1 a b unset 0022' "$(cat out)"
        eq '{"a": 1}' "$(cat "$c/.claude/settings.json")"
        eq hidden "$(cat "$c/.claude/.mcp.json")"
        eq rule "$(cat "$c/.claude/rules/rust.md")"
        eq "it's %s \$x" "$(cat "$c/.claude/.credentials.json")"
        eq '600 regular file' "$(stat -c '%a %F' "$c/.claude/settings.json")"
        eq '.credentials.json .mcp.json rules settings.json' "$(cd "$c/.claude" && find . -mindepth 1 -maxdepth 1 -printf '%f\n' | LC_ALL=C sort | tr '\n' ' ' | sed 's/ $//')"
        # a copy that fails: the command does not start
        rm -rf "${c:?}/.claude" && touch "$c/.claude"
        status 1 env -i PATH="$PATH" HOME="$c" sh -c "$(cat script)" sh echo started >out 2>err
        lacks "$(cat out)" started
}

for file in "$golden"/*.yaml; do
        name=$(basename "$file" .yaml)
        t "$name is as its file" is_golden "$name"
        t "$name in YAML is $name in JSON" json_is_yaml "$name"
done
for name in minimal full relaxed environment resumed secrets; do t "$name fits PodSecurity restricted" is_restricted "$name"; done
t 'the checker of PodSecurity refuses bad pods' checker_refuses_bad_pods
t 'everything fits the schemas, without an unknown field' fits_schema
t 'images/kubernetes has what is printed' images_are_what_is_printed
t 'the rights of the worker are narrow' rights_are_narrow
t 'mistakes are said by their key' mistakes_are_said
t 'secrets in clear text are refused' plain_secrets_are_refused
t 'what no pod can be' what_no_pod_is
t 'volumes of a cluster are mounts, too' volumes_by_mount
t 'files of a run: one Secret of its own, and no value in what is printed' files_of_a_run
t 'the start script copies profiles, then credentials' start_script_copies_profiles
finish
