#!/usr/bin/env bash
# The help is on stdout, complete, within 80 columns; errors are one line on stderr
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

verbs() { "$C" help | sed -n '/^Verbs/,/^$/s/^  \([a-z-]*\) .*/\1/p' | grep -vxE 'help|version'; }

# narrow FILE: at most 80 columns, no tab, no blank at a line's end
narrow() {
        [ -s "$1" ] || fail 'no output'
        ! LC_ALL=C.UTF-8 grep -nE '.{81}|	| $' "$1" || fail 'lines that are too long, hold a tab or end in a blank'
}

help_of_program() {
        local word
        for word in help --help -h; do
                status 0 "$C" "$word" >out 2>err
                narrow out
                eq '' "$(cat err)" "stderr of '$word'"
                has "$(cat out)" 'Usage: cofferdam'
        done
}

help_of_verb() {
        status 0 "$C" "$1" --help >out 2>err
        narrow out
        eq '' "$(cat err)" stderr
        has "$(head -n 1 out)" "Usage: cofferdam"
}

# refuse WORD...: usage error, one line on stderr that holds the text of $want
refuse() {
        status 2 "$C" "$@" >out 2>err
        eq '' "$(cat out)" stdout
        eq 1 "$(wc -l <err)" 'lines on stderr'
        has "$(cat err)" "$want"
        has "$(cat err)" 'cofferdam: '
}

no_verb() { want='cofferdam help' refuse; }
unknown_verb_suggests() { want="'version'" refuse versoin; }
unknown_verb_is_not_guessed() {
        want="'exec'" refuse exek
        want="see 'cofferdam help'" refuse make
        want='stands before the verb' refuse --network
}
help_of_a_verb_is_its_own() {
        local verb
        for verb in $(verbs); do
                status 0 "$C" help "$verb" >out 2>err
                "$C" "$verb" --help | cmp - out || fail "help $verb"
        done
        want="'version'" refuse help versoin
}
# a word of 'run' would be a command
help_of_a_word() {
        local word
        for word in show check schema; do
                status 0 "$C" help spec "$word" >out 2>err
                "$C" spec "$word" --help | cmp - out || fail "help spec $word"
        done
        want="'true' is a word too many" refuse help run true
        want="'x' is a word too many" refuse help spec check x
        want="'zzz'" refuse help spec zzz
}
version_takes_no_word() {
        want="unexpected word '--bogus'" refuse version --bogus
        want="unexpected word 'x'" refuse version x
        has "$("$C" version)" 'cofferdam '
        eq "$("$C" version)" "$("$C" --version)"
}
unknown_verb_without_a_neighbour() { want='cofferdam help' refuse zzzzzzzz; }
verb_with_control_bytes() {
        want='\n' refuse $'a\nb\033[31m'
        ! LC_ALL=C grep -q '[[:cntrl:]]' err || fail 'control bytes reach the terminal'
}
unknown_option() { want='--no-such-option' refuse "$1" --no-such-option; }

version_is_one_line() {
        status 0 "$C" --version >out 2>err
        eq 1 "$(wc -l <out)" lines
        grep -qE '^cofferdam [0-9]+\.[0-9]+\.[0-9]+$' out || fail "$(cat out)"
}

t 'help is on stdout within 80 columns' help_of_program
for verb in $(verbs); do t "$verb --help" help_of_verb "$verb"; done
for verb in $(verbs); do t "$verb refuses an unknown option" unknown_option "$verb"; done
t 'no verb' no_verb
t 'an unknown verb names the nearest' unknown_verb_suggests
t 'an unknown verb is not guessed from little' unknown_verb_is_not_guessed
t 'help of a verb' help_of_a_verb_is_its_own
t 'an unknown verb without a neighbour' unknown_verb_without_a_neighbour
t 'a verb with control bytes is escaped' verb_with_control_bytes
t 'version' version_is_one_line
t 'help of a word of a verb' help_of_a_word
t 'version takes no word' version_takes_no_word
finish
