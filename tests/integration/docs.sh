#!/usr/bin/env bash
# What the manual says exists, and what exists is in the manual
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

man=$TOP/docs/man

verbs() { "$C" help | sed -n '/^Verbs/,/^$/s/^  \([a-z-]*\) .*/\1/p'; }

# source_of PAGE: the mdoc source; a page may be a link to another (.so man1/NAME)
source_of() {
        local target
        [ -e "$man/$1" ] || fail "no docs/man/$1"
        target=$(sed -n '1s,^\.so man[1-8]/,,p' "$man/$1")
        cat "$man/${target:-$1}"
}

# The options in the head of each option line: "  -w, --workspace DIR   text"
options_in_help() {
        sed -n 's/^ \{1,8\}\(-.*\)/\1/p' "$1" | sed 's/   *.*//; s/--\[no-\]/--/' | grep -oE -- '(^|[ ,])--?[A-Za-z][A-Za-z0-9-]*' |
                tr -d ' ,' | sort -u
}

# The options that have an entry: ".It Fl w , Fl -workspace Ar DIR"
options_in_page() {
        sed -n 's/^\.It \(.*Fl .*\)/\1/p' | grep -oE '(^| )Fl -?[A-Za-z][A-Za-z0-9-]*' | sed 's/^ *Fl /-/' | sort -u
}

same_list() {
        local only
        only=$(comm -23 "$1" "$2")
        [ -z "$only" ] || fail "$3: $(echo "$only" | tr '\n' ' ')"
        only=$(comm -13 "$1" "$2")
        [ -z "$only" ] || fail "$4: $(echo "$only" | tr '\n' ' ')"
}

verb_has_a_page() {
        grep -qx "\.It Cm $1" "$man/cofferdam.1" || fail "cofferdam(1) does not list '$1'"
        case $1 in help | version) return ;; esac
        source_of "cofferdam-$1.1" >page
        [ -s page ] || fail 'the page is empty'
        [ "$(awk '/^\.Sh NAME/ { getline; print }' page)" = ".Nm cofferdam-$1" ] || fail 'NAME is another'
}

verb_is_real() {
        sed -n 's/^\.It Cm \([a-z-]*\)$/\1/p' "$man/cofferdam.1" | sort -u >page
        verbs | sort -u >help
        same_list page help 'in cofferdam(1), but no verb' 'a verb, but not in cofferdam(1)'
}

# Words behind a verb that have a help of their own, from "Usage: cofferdam VERB a|b|c"
subverbs() { sed -n "1s/^Usage: cofferdam $1 \([a-z]*\(|[a-z]*\)*\) .*/\1/p" "$2" | tr '|' ' '; }

options_agree() {
        local word
        case $1 in help | version) return ;; esac
        status 0 "$C" "$1" --help >text
        for word in $(subverbs "$1" text); do status 0 "$C" "$1" "$word" --help >>text; done
        options_in_help text | grep -qx -- --help || fail "no option is read from '$1 --help'"
        options_in_help text | grep -vxE -- '-h|--help' >help || true
        source_of "cofferdam-$1.1" >mdoc
        options_in_page <mdoc | grep -vxE -- '-h|--help' >page || true
        if [ "$1" != run ] && grep -qx -- --spec help; then # those of the specification stand in cofferdam-run(1)
                source_of cofferdam-run.1 | options_in_page | comm -13 - help >own
                comm -13 page own >missing
                comm -23 page help >unknown
                cat missing unknown >different
                [ ! -s different ] || fail "not the same in help and page: $(tr '\n' ' ' <different)"
                return
        fi
        same_list help page "in '$1 --help' only" "in cofferdam-$1(1) only"
}

verb_agrees() {
        verb_has_a_page "$1"
        options_agree "$1"
}

# strings of the program that match a pattern, without their quotes
strings_of() { grep -rhoE --include='*.c' "\"$1\"" "$TOP/runtime" "$TOP/drivers" "$TOP/cli" | tr -d '"' | sort -u; }

# events_items HEADING MACRO: what is listed with `.It MACRO` below a heading of cofferdam-events(7)
events_items() {
        awk -v head="$1" -v macro="$2" '/^\.S[hs] / { on = $0 == ".Ss " head } on && $1 == ".It" && $2 == macro { print $3 }' \
                "$man/cofferdam-events.7" | sort -u
}

# the calls of events_emit(), launch_event() and a driver's event(), one a line
events_emitted() {
        find "$TOP/runtime" "$TOP/cli" "$TOP/drivers" -name '*.c' -exec cat {} + | tr '\n' ' ' |
                grep -oE '(events_emit|launch_event|callbacks->event)\([^;]*\);' |
                sed -E 's/(json_object_get|text_of)\([^()]*\)//g; s/callbacks->event/events_emit/'
}

event_types_agree() {
        events_emitted | sed -E 's/((events_emit|launch_event)\([^,]*,[^,]*,).*/\1/' | grep -oE '"[a-z_]+"' | tr -d '"' | sort -u >code
        [ -s code ] || fail 'no event in the code'
        # and those of another process, which the supervisor passes on
        sed -n '/client_types\[\] = {/,/};/p' "$TOP/runtime/run/events.c" | grep -oE '"[a-z_]+"' | tr -d '"' | sort -u - code -o code
        events_items Types Cm >page
        same_list code page 'emitted, but not in cofferdam-events(7)' 'in cofferdam-events(7), but never emitted'
}

event_keys_agree() {
        events_emitted | sed -E 's/(events_emit|launch_event)\([^,]*,[^,]*,//' | grep -oE '"[a-z_]+"' | tr -d '"' | sort -u >code
        [ -s code ] || fail 'no key in the code'
        events_items Types Ic >page
        same_list code page 'emitted, but not in cofferdam-events(7)' 'in cofferdam-events(7), but never emitted'
}

failure_codes_agree() {
        strings_of '(SANDBOX|SPEC|CAPABILITY|BIND_SOURCE|GUARD|EGRESS|RUN|POST|IMAGE|WORKSPACE|CREDENTIAL|OUT_OF)_[A-Z_]+' >code
        [ -s code ] || fail 'no failure code in the code'
        events_items 'Failure codes' Dv >page
        same_list code page 'in the code only' 'in cofferdam-events(7) only'
}

exit_codes_agree() {
        sed -n 's/^ *EXIT_[A-Z]* = \([0-9]*\),.*/\1/p' "$TOP/cli/verbs.h" | sort -u >code
        awk '/^\.S[hs] / { on = $0 == ".Sh EXIT STATUS" } on && /^\.It [0-9]+$/ { print $2 }' "$man/cofferdam.1" |
                sort -u >page
        same_list code page 'in cli/verbs.h only' 'in cofferdam(1) only'
}

pages_are_installed() {
        (cd "$man" && ls -- *.[1-8]) | sort >files
        sed -n "s/^  '\(.*\)',$/\1/p" "$man/meson.build" | sort >listed
        same_list files listed 'not in docs/man/meson.build' 'listed, but not there'
}

cross_references_exist() {
        local page
        grep -hoE 'Xr cofferdam[a-z.-]* [1-8]' "$man"/*.[1-8] | sort -u | while read -r _ page section; do
                [ -e "$man/$page.$section" ] || fail "no page $page($section)"
        done
}

# relative links of the Markdown files
links_exist() {
        local file target
        find "$TOP" -name '*.md' -not -path '*/build*' | while read -r file; do
                grep -oE '\]\([^)#: ]+[)#]' "$file" | tr -d ']()#' | while read -r target; do
                        [ -e "$(dirname "$file")/$target" ] || fail "${file#"$TOP"/}: no $target"
                done
        done
}

# what the documents call by name in backticks: files of the repository, functions of its code
names_exist() {
        local file name
        for file in "$TOP"/*.md "$TOP"/docs/*.md "$TOP"/docs/adr/*.md; do
                grep -oE '`[^`]+`' "$file" | tr -d '`' | sort -u | while read -r name; do
                        case $name in
                        */*[*\<]*) ;;
                        unit/* | integration/* | fuzz/* | lint/*) [ -e "$TOP/tests/$name" ] ;;
                        runtime/*.* | fs/*.* | netns/*.* | drivers/*.* | cli/*.* | tests/*.* | docs/*.*)
                                [ -e "$TOP/$name" ] ;;
                        [a-z]*_[a-z_]*'()' | child'()')
                                grep -rqE "\b${name%()}\(" --include='*.[ch]' "$TOP"/{runtime,fs,netns,auth,drivers,cli} ;;
                        *) ;;
                        esac || fail "${file#"$TOP"/}: there is no $name"
                done
        done
}

# tests_of KIND: "FILE 'NAME'" a line, of what the threat model names as `KIND/FILE` 'NAME', 'NAME'
tests_of() {
        grep -oE "\`$1/[a-z-]+\.[a-z]+\` ('[^']+'(, )?)+" "$TOP/docs/threat-model.md" | while read -r line; do
                grep -oE "'[^']+'" <<<"$line" | sed "s,^,$(cut -d'`' -f2 <<<"$line") ,"
        done
}
tests_exist() {
        tests_of integration >named
        [ "$(wc -l <named)" -gt 30 ] || fail "tests of scripts that are named: $(wc -l <named)"
        while read -r script name; do
                case $name in # 'by ...': all that begin so, which a loop may make
                *"...'") grep -qE -- "t [\"']${name:1:-4}" "$TOP/tests/$script" ;;
                *) # or of a loop over engines
                        bare=${name:1:-1}
                        grep -qF -e "t $name " -e "k $name " -e "t \"\$engine: ${bare#podman: }\" " "$TOP/tests/$script" ;;
                esac || fail "$script has no test $name"
        done <named
        tests_of unit >named
        [ -s named ] || fail 'no test of a program is named'
        while read -r file name; do
                grep -qE -- "(cmocka_unit_test|TEST)\($(tr -d "'" <<<"$name")\)" "$TOP/tests/$file" || fail "$file has no test $name"
        done <named
}

# A table of the threat model with a column for tests has one in each row; what it names runs in a suite.
defences_are_tested() {
        awk -F' *[|] *' '/^[|]/ { if ($(NF - 1) == "test") on = NF; else if (on == NF && $(NF - 1) !~ /^-*$/) print $(NF - 1); \
                else if (on && $(NF - 1) == "") print "no test: " $2; next } { on = 0 }' "$TOP/docs/threat-model.md" >cells
        [ "$(wc -l <cells)" -gt 50 ] || fail "rows with tests: $(wc -l <cells)"
        grep -vE '`(unit|integration|fuzz|lint)/[a-z-]+\.(c|sh)`' cells >none || true
        [ ! -s none ] || fail "without a test: $(cat none)"
        grep -ohE '`integration/[a-z-]+\.sh`' "$TOP/docs/threat-model.md" | tr -d '`' | sort -u | while read -r name; do
                name=$(basename "$name" .sh)
                grep -q "^  '$name': " "$TOP/tests/integration/meson.build" || fail "$name.sh is in no suite"
        done
}

records_are_numbered() {
        local n=0 file
        for file in "$TOP"/docs/adr/[0-9]*.md; do
                n=$((n + 1))
                eq "$(printf '%03d' "$n")" "$(basename "$file" | cut -c1-3)" "number of $(basename "$file")"
                eq "# $(printf '%03d' "$n"):" "$(head -n 1 "$file" | cut -c1-6)" "heading of $(basename "$file")"
                for part in Context Decision Consequences; do
                        grep -qx "## $part" "$file" || fail "$(basename "$file"): no section '$part'"
                done
        done
        [ "$n" -gt 0 ] || fail 'no records'
}

for verb in $(verbs); do t "$verb: help and page agree" verb_agrees "$verb"; done
t 'verbs of cofferdam(1) are real' verb_is_real
t 'event types: code and page agree' event_types_agree
t 'event keys: code and page agree' event_keys_agree
t 'failure codes: code and page agree' failure_codes_agree
t 'exit codes: code and page agree' exit_codes_agree
t 'every page is installed' pages_are_installed
t 'cross references exist' cross_references_exist
t 'links between documents exist' links_exist
t 'files and functions that documents name exist' names_exist
t 'tests that the threat model names exist' tests_exist
t 'every defence of the threat model has a test' defences_are_tested
t 'decision records are numbered and complete' records_are_numbered
finish
