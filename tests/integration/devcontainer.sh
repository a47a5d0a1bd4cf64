#!/usr/bin/env bash
# What a repository says of its sandbox, in a run: .cofferdam.yaml and devcontainer.json
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

dc() { mkdir -p .devcontainer && cat >.devcontainer/devcontainer.json; }
# events TYPE: the data of the events of that type in the sink
events() { python3 -c 'import json,sys
for l in open("events"):
    e=json.loads(l)
    if e["type"]==sys.argv[1]: print(json.dumps(e["data"], sort_keys=True))' "$1"; }

plain_one() {
        need_command python3
        dc <<'J'
{
  // what most of them look like
  "name": "x",
  "image": "localhost:1/base:1",
  "containerEnv": {"A": "container", "WHERE": "${localWorkspaceFolder}", "T": "${localEnv:GITHUB_TOKEN:none}"},
  "remoteEnv": {"A": "remote"},
  "postCreateCommand": ["sh", "-c", "echo created > 'made here'"],
  "customizations": {"vscode": {"extensions": ["a.b"]}},
}
J
        # shellcheck disable=SC2016 # for the shell inside
        GITHUB_TOKEN=hunter2 "$C" run --events events -- sh -c 'echo "$A $WHERE $T"; cat "made here"' >out 2>err
        eq "container $PWD none
created" "$(cat out)"
        # the driver has no such image: said, not silently
        has "$(cat err)" "the repository's image is not used"
        has "$(events spec_key_refused)" '"key": "image"'
        lacks "$(cat events)" hunter2
}

# Red without narrow_key() in merge_key(), narrow_item() in list.c
repository_widens_nothing() {
        need_command python3
        cat >.cofferdam.yaml <<'J'
mode: none
driver: noop
network: {mode: open}
workspace: {source: /etc, bypass: [.git]}
allow_sensitive: [/etc/shadow]
secrets: [{name: A, from: {env: HOME}, hosts: [a.example]}]
security: {nested_userns: true}
home: {seed: [/etc/passwd]}
guard: {defaults: false, rules: [{path: .git/hooks, do: allow}]}
mounts: ["type=bind,source=/root,target=/x", "type=overlay,source=/root,target=/y"]
env: {PATH: /evil, LD_PRELOAD: /evil.so, OK: yes}
J
        mkdir -p .git/hooks
        # shellcheck disable=SC2016
        "$C" run --events events -- sh -c 'echo "$OK $PATH ${LD_PRELOAD-}"; ls -d /x /y 2>&1; echo evil > .git/hooks/post-commit; tail -n +3 /proc/net/dev' \
                >out 2>err
        has "$(head -1 out)" 'yes '
        lacks "$(cat out)" /evil
        has "$(tail -1 out)" 'lo:' network
        [ ! -e .git/hooks/post-commit ] || fail 'a hook reached the host'
        for key in mode driver network.mode workspace.source workspace.bypass allow_sensitive secrets \
                security.nested_userns home.seed guard.defaults 'guard.rules\[0\]' 'mounts\[1\]'; do
                events spec_key_refused | grep -q "\"key\": \"$key\"" || fail "$key is not named"
        done
        eq 'env.LD_PRELOAD env.PATH' "$(events sandbox_env_denied | sed 's/.*"key": "\([^"]*\)".*/\1/' | sort | tr '\n' ' ' | sed 's/ $//')"
        has "$("$C" spec show)" 'refused: network.mode (.cofferdam.yaml:3)'
}

# Red when the order of add_spec_rules() is that of the tiers
rules_only_tighten() {
        mkdir -p .git/hooks data
        echo s >data/secret
        cat >.cofferdam.yaml <<'J'
guard:
  rules: [{path: data/**, do: protect}, {path: data/secret, do: hide}, {path: open, do: protect}]
J
        "$C" run --allow-write open --hide data/private -- sh -c 'cat data/secret; echo x > data/new; echo x > open' >out 2>&1 || true
        has "$(cat out)" 'data/secret: No such file'
        [ ! -e data/new ] || fail 'data/new was written'
        eq x "$(cat open)" "the operator's rule comes after"
        # a repository that protects what the built-in list holds changes nothing of it
        printf 'guard: {rules: [{path: "**", do: protect}]}\n' >.cofferdam.yaml
        "$C" run -- sh -c 'echo x > .git/hooks/post-commit; echo y > data/new; echo ran' >out 2>&1 || fail "$(cat out)"
        has "$(cat out)" ran
        [ ! -e .git/hooks/post-commit ] && [ ! -e data/new ] || fail 'written'
}

# a link in the workspace; by both ways to say it. Red without is_beneath(); and without the look at the pin in regions.c
# when the link is put there between the two (see unit tests)
binds_stay_in_the_workspace() {
        mkdir in
        echo inside >in/f
        ln -s /etc out
        printf 'mounts: ["type=bind,source=in,target=/in", "type=bind,source=out,target=/out"]\n' >.cofferdam.yaml
        "$C" run -- sh -c 'cat /in/f; ls /out 2>&1; echo x > /in/f' >got 2>&1 || true
        has "$(cat got)" inside
        has "$(cat got)" "/out"
        lacks "$(cat got)" passwd
        eq inside "$(cat in/f)" 'a bind of a repository is read-only'
}

# an archive of the host is no image that a repository names. Red without image_names_file() in narrow_key()
image_is_no_file_of_the_host() {
        local name
        mkdir root
        echo secret >root/private
        tar -C root -cf "$T/backup.tar" .
        for name in "docker-archive:$T/backup.tar" "oci-archive:$T/backup.tar" "oci:$T"; do
                echo "{\"image\": \"$name\"}" >.devcontainer.json
                "$C" run -- cat /private >out 2>err || true
                lacks "$(cat out)" secret
                has "$(cat err)$("$C" spec show)" 'has to come from a registry'
        done
}

privileged_is_unusable() {
        dc <<<'{"image": "localhost:1/x", "containerEnv": {"A": "b"}, "runArgs": ["--privileged"]}'
        # shellcheck disable=SC2016
        "$C" run -- sh -c 'echo "a=${A-}"' >out 2>err
        eq a= "$(cat out)"
        has "$(cat err)" 'devcontainer.json is not used: .devcontainer/devcontainer.json:1: runArgs[0]: asks for a privileged container'
        status 2 "$C" run --mode inline -- true 2>err
        has "$(cat err)" inline
}

nothing_of_it_runs_on_the_host() {
        dc <<<"{\"image\": \"localhost:1/x\", \"initializeCommand\": \"touch $T/pwned\"}"
        "$C" run -- true 2>err
        [ ! -e "$T/pwned" ] || fail 'initializeCommand was run'
        has "$("$C" spec show)" 'refused: initializeCommand'
}

own_file_with_a_mistake() {
        printf 'imgae: x\n' >.cofferdam.yaml
        code=0
        "$C" run -- true 2>err || code=$?
        [ "$code" -ne 0 ] || fail 'a mistake was passed over'
        has "$(cat err)" "imgae: unknown key, did you mean 'image'?"
        has "$(cat err)" --no-repository
        status 0 "$C" run --no-repository -- true
        ln -sf /etc/passwd .cofferdam.yaml
        code=0
        "$C" run -- true 2>err || code=$?
        [ "$code" -ne 0 ] || fail 'a link was followed'
        lacks "$(cat err)" root:
}

asked_for_strictly() {
        dc <<<'{"image": "localhost:1/x"}'
        code=0
        "$C" run --driver native --isolation strict -- true 2>err || code=$?
        eq 125 "$code" status
        lacks "$(cat err)" "is not used"
        status 0 "$C" run --host-root -- true 2>err
        eq '' "$(cat err)"
}

t 'a usual devcontainer.json' plain_one
t 'a repository widens nothing' repository_widens_nothing
t "a repository's rules only tighten" rules_only_tighten
t "a repository's binds stay in the workspace" binds_stay_in_the_workspace
t 'an image that is a file of the host' image_is_no_file_of_the_host
t 'a privileged devcontainer is unusable' privileged_is_unusable
t 'initializeCommand is never run' nothing_of_it_runs_on_the_host
t 'a mistake in .cofferdam.yaml is an error' own_file_with_a_mistake
t 'strict isolation keeps the image; --host-root needs none' asked_for_strictly
finish
