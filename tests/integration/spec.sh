#!/usr/bin/env bash
# cofferdam spec: what the sources mean together, who said it, and what is wrong with them
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

value() { "$C" spec show "${@:2}" | grep -E "^$1 "; }

defaults_are_shown() {
        has "$(value network.mode)" 'none  (built-in)'
        has "$(value workspace.source)" "$PWD  (built-in)"
        has "$(value home.toolchains)" 'true  (built-in)'
}

# each source above the one before it
precedence() {
        export XDG_CONFIG_HOME=$PWD/config
        mkdir -p config/cofferdam
        printf 'tmp: {size: 1Mi}\nname: from-config\n' >config/cofferdam/config.yaml
        printf '{"tmp": {"size": "3Mi"}}' >w.json
        has "$(value tmp.size)" '1048576  (config)'
        export COFFERDAM_TMP_SIZE=2Mi
        has "$(value tmp.size)" '2097152  (environment)'
        has "$(value tmp.size --tier workflow -s w.json)" '3145728  (workflow)'
        has "$(value tmp.size --tmp-size 4Mi --tier workflow -s w.json)" '4194304  (flag)'
        has "$(value tmp.size --tmp-size 4Mi w.json)" '4194304  (flag)'
        has "$(value name w.json)" 'from-config  (config)'
}

lists_add_up() {
        printf 'guard: {rules: [{path: a, do: hold}]}\n' >a.yaml
        printf 'guard: {rules: [{path: b, do: hide}]}\n' >b.yaml
        "$C" spec show -s a.yaml --protect c -s b.yaml | sed -n 's/^guard.rules.*"path": "\(.\)".*/\1/p' | tr -d '\n' >out
        eq abc "$(cat out)" order
}

lists_of_text_are_shown() {
        has "$("$C" spec show --network allowlist --allow a.example)" 'network.rules[0]         {"rule": "a.example"}  (flag)'
        printf 'home: {persist: [.cache/x]}\n' >p.yaml
        has "$(value 'home.persist.0.' p.yaml)" '.cache/x'
}

json_is_for_programs() {
        need_command python3
        "$C" spec show --json -e TOKEN=hunter2 >out
        python3 -c 'import json,sys; d=json.load(open("out")); assert d["env"]["value"]==[{"name":"TOKEN","tier":"flag"}], d["env"]; assert d["mode"]["value"]=="auto"'
        lacks "$(cat out)" hunter2
}

check_says_what_is_wrong() {
        printf 'version: 1\nnetwork: {mdoe: none}\n' >bad.yaml
        status 1 "$C" spec check bad.yaml >out 2>err
        eq '' "$(cat out)" stdout
        eq "cofferdam: bad.yaml:2: network.mdoe: unknown key, did you mean 'network.mode'?" "$(cat err)"
        status 1 "$C" spec check --json bad.yaml >out 2>err
        has "$(cat out)" '"failure_code": "SPEC_INVALID"'
        for bad in 'rules: [ok.example, "a*b"]' 'preset: nosuch' 'preset: "!default"'; do
                printf 'network: {mode: allowlist, %s}\n' "$bad" >bad.yaml
                status 1 "$C" spec check bad.yaml 2>err
                has "$(cat err)" network.
        done
        printf 'security: {no_new_privs: false}\n' >later.yaml
        status 1 "$C" spec check --json later.yaml >out
        has "$(cat out)" '"failure_code": "CAPABILITY_UNSUPPORTED"'
        has "$(cat out)" 'no_new_privs'
        printf 'network: {mode: open}\n' >good.yaml
        status 0 "$C" spec check good.yaml >out 2>&1
        eq '' "$(cat out)" output
}

# the files that are in the checkout for the purpose
assets_are_refused() {
        local file
        for file in "$TOP"/tests/assets/spec/should-fail-*; do
                status 1 timeout 100 "$C" spec check "$file" >out 2>err
                eq 1 "$(wc -l <err)" "lines of $file"
                has "$(cat err)" "${file##*/}"
        done
}

workflow_cannot_widen() {
        printf 'driver: noop\n' >w.yaml
        status 0 "$C" spec check w.yaml
        status 1 "$C" spec check --tier workflow w.yaml 2>err
        has "$(cat err)" 'for the operator to say'
        printf 'env: {AWS_SECRET_ACCESS_KEY: }\n' >w.yaml
        status 1 "$C" spec check --tier workflow w.yaml 2>err
        has "$(cat err)" AWS_SECRET_ACCESS_KEY
}

# red once a specification is looked for in the workspace
workspace_specifies_nothing() {
        local file before
        before=$("$C" spec show)
        # .cofferdam.yaml is named, and dropped: devcontainer.sh has more of it
        mkdir .cofferdam .config .config/cofferdam
        for file in .cofferdam.yaml cofferdam.yaml .cofferdam.json .cofferdam/config.yaml .config/cofferdam/config.yaml .env; do
                echo 'network: {mode: open}' >"$file"
        done
        eq "$before" "$("$C" spec show | grep -v '^refused: network.mode (.cofferdam.yaml:1)')"
        eq '' "$(sandbox -- sh -c 'sed 1,2d /proc/net/dev | grep -v " lo:"')" 'devices of the host'
}

config_of_others_is_refused() {
        export XDG_CONFIG_HOME=$PWD/config
        mkdir -p config/cofferdam
        echo 'keep: true' >config/cofferdam/config.yaml
        chmod 666 config/cofferdam/config.yaml
        status 1 "$C" spec check 2>err
        has "$(cat err)" 'not be writable by others'
}

schema_is_the_installed_one() { "$C" spec schema | cmp - "$TOP/docs/schema/spec.json" || fail 'not docs/schema/spec.json'; }

wrong_words() {
        status 2 "$C" spec shov 2>err
        has "$(cat err)" "did you mean 'show'?"
        status 2 "$C" spec 2>err
        has "$(cat err)" 'show, check or schema'
        status 2 "$C" spec schema x 2>err
        has "$(cat err)" "'x'"
        status 2 "$C" spec show --netwrok none 2>err
        has "$(cat err)" "did you mean '--network'?"
}

t 'defaults are shown with who said them' defaults_are_shown
t 'options over workflow over environment over configuration' precedence
t 'lists add up, lower sources first' lists_add_up
t 'lists whose items do not say who gave them' lists_of_text_are_shown
t 'JSON holds no value of a variable' json_is_for_programs
t 'check says what is wrong, and where' check_says_what_is_wrong
t 'every bad file is refused in one line' assets_are_refused
t 'a workflow cannot say what the operator has to' workflow_cannot_widen
t 'a file of the workspace specifies nothing' workspace_specifies_nothing
t 'a configuration that others can write is refused' config_of_others_is_refused
t 'the schema' schema_is_the_installed_one
t 'wrong words' wrong_words
finish
