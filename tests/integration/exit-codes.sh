#!/usr/bin/env bash
# The exit status is the command's own; what cofferdam itself says has codes of its own and one line on stderr
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

passes() { status "$1" sandbox -- sh -c "$2" 2>err && eq '' "$(cat err)" stderr; }

# complains STATUS TEXT CMD...
complains() {
        local want=$1 text=$2
        shift 2
        status "$want" "$@" >out 2>err
        cat err
        eq '' "$(cat out)" stdout
        eq 1 "$(wc -l <err)" 'lines on stderr'
        has "$(cat err)" "$text"
}

not_found() { complains 127 no-such-command sandbox -- no-such-command; }
not_found_by_path() { complains 127 ./gone sandbox -- ./gone; }
empty_name() { complains 127 "''" sandbox -- ''; }
not_executable() {
        echo 'echo never' >script
        complains 126 ./script sandbox -- ./script
}
a_directory() {
        mkdir dir
        complains 126 ./dir sandbox -- ./dir
}
missing_interpreter() {
        printf '#!/no/such/interpreter\n' >script
        chmod +x script
        complains 127 ./script sandbox -- ./script
}
no_shebang() { # no shell is guessed, as in a container
        printf 'echo by the shell' >script
        chmod +x script
        complains 126 ./script sandbox -- ./script
}
no_format() {
        printf '\177ELF garbage' >program
        chmod +x program
        complains 126 ./program sandbox -- ./program
}
found_by_path_of_the_sandbox() {
        mkdir bin
        printf '#!/bin/sh\necho mine\n' >bin/mine
        chmod +x bin/mine
        eq mine "$(PATH=$PWD/bin:$PATH sandbox -- mine)"
}
no_workspace() { complains 125 /no/such/place sandbox -w /no/such/place -- true; }
no_command() { complains 2 command "$C" run; }
no_command_after_dashes() { complains 2 command "$C" run --; }

for code in 0 1 2 7 100 124 125 126 127 255; do t "exit $code" passes $code "exit $code"; done
for signal in HUP:1 INT:2 KILL:9 SEGV:11 PIPE:13 TERM:15 RTMIN:34; do
        t "killed by ${signal%:*}" passes $((128 + ${signal#*:})) "ulimit -c 0; kill -${signal%:*} \$\$"
done
t 'command not found' not_found
t 'command not found by path' not_found_by_path
t 'empty command' empty_name
t 'file that is not executable' not_executable
t 'directory as command' a_directory
t 'missing interpreter' missing_interpreter
t 'a script without an interpreter line' no_shebang
t 'executable of no known format' no_format
t "the command is looked up in the caller's PATH" found_by_path_of_the_sandbox
t 'missing workspace' no_workspace
t 'no command' no_command
t 'no command after --' no_command_after_dashes
finish
