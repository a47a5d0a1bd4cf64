#!/usr/bin/env bash
# The contained side of the agent pair alone: runner.py speaks the envelopes, messages-api.py is the model's server.
# What a case says would turn red: without the check of the schema `reading`, without RESOLVE_BENEATH `paths`, without
# the sweep of descendants `bash_hostile`, without json_modest() or the limit of bytes `hostile_model`, without keeping
# signatures `parallel_tools`, without discarding a cut answer `retries`, without the repair of conversations `replay` and
# `pause_resume`.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
export RUNNER=$T/libexec/cofferdam-runner TMPDIR=$T

case_of() {
        [ -x "$RUNNER" ] || fail "the runner was not built"
        python3 "$here/runner.py" "$1" || exit 1
}

in_busybox() {
        need_command busybox
        local root=$W/root
        mkdir -p "$root"/{bin,tmp,etc,proc,dev}
        cp "$(command -v busybox)" "$root/bin/busybox"
        file -L "$root/bin/busybox" | grep -q 'statically' || skip 'offline: busybox-static is not installed'
        for name in sh ls cat; do ln -s busybox "$root/bin/$name"; done
        : >"$root/dev/null" # an engine makes the device, which a user cannot
        cp "$RUNNER" "$root/bin/runner"
        cat >"$W/enter" <<SH
#!/bin/sh
exec unshare --user --map-root-user --mount --pid --fork --mount-proc=/proc --root="$root" /bin/runner
SH
        chmod +x "$W/enter"
        RUNNER=$W/enter python3 "$here/runner.py" busybox || exit 1
}

arguments() {
        status 2 "$C" runner --what 2>err
        has "$(cat err)" 'no arguments'
        "$C" runner --help >out
        has "$(cat out)" 'Usage: cofferdam runner'
        # every schema is a tool's and every tool has one; names of tools in the manual page
        eq "$("$C" runner --tools | sort | tr '\n' ' ')" "$(cd "$TOP/docs/schema/tools" && printf '%s\n' *.json | sed 's/\.json$//' | sort | tr '\n' ' ')"
        for name in $("$C" runner --tools); do grep -q "^\.It Cm $name\$" "$TOP/docs/man/cofferdam-runner.1" || fail "$name is not in the manual page"; done
        file -L "$RUNNER" | grep -q 'dynamically linked' && skip 'case says: built without -Dstatic=true'
        file -L "$RUNNER" | grep -Eq 'static-pie linked|statically linked' || fail 'it is not static'
}

t 'a task in words, streamed in pieces' case_of text_task
t 'protocol 1: no more keys than it has' case_of protocol_one
t 'protocol 2: usage is what the server counted' case_of protocol_two
t 'parallel tools, thinking with its signature, answers in any order and unasked' case_of parallel_tools
t 'calls that are not advertised, not JSON, not fitting or denied' case_of bad_calls
t '429 with retry-after, 529, a cut stream, an error in the stream' case_of retries
t 'answers without an end, bombs, numbers that are none' case_of hostile_model
t 'what is not tried again' case_of no_retry
t 'a conversation that is too long is made shorter' case_of overflow
t 'a conversation that cannot be made shorter' case_of overflow_for_good
t 'compaction before the model complains' case_of threshold
t 'tool_max_steps' case_of limits
t 'structured output: by the tool, out of words, after a word' case_of structured
t 'a question pauses the task, its answer resumes it' case_of pause_resume
t 'questions that are answered at once' case_of questions
t 'an earlier session' case_of replay
t 'turn snapshots up to 2 MiB' case_of snapshots
t 'results of the launcher up to 1 MiB' case_of clamp
t 'anything but a task before the task' case_of before_the_task
t 'a line of 4 MiB and one byte more' case_of line_limit
t 'the launcher goes away' case_of hang_up
t 'TLS, directly and through a proxy' case_of tls
t 'bash keeps its state' case_of bash_state
t 'bash: floods, forks, ignored signals, hidden children' case_of bash_hostile
t 'file_edit is exact' case_of edit
t 'paths stay in the work directory' case_of paths
t 'reading: long, wide, binary, huge, images' case_of reading
t 'glob, grep, workspace_grep' case_of searching
t 'notebook_edit' case_of notebook
t 'web_fetch, remote_trigger' case_of fetching
t 'skill, sleep, repl, diagnostic_shell, messages' case_of others
t 'at most 8 MiB while it waits' case_of memory
t 'in a busybox image' in_busybox
t 'arguments, names, linking' arguments
finish
