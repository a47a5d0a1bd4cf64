#!/bin/sh
# Functions that no source may call (style rule 20), and getenv only where rule 19 allows it
set -eu
cd "$(dirname "$0")/../.."
bad=0
refuse() { # refuse WHY REGEX PATHSPEC...
        why=$1 regex=$2
        shift 2
        ! git grep -nwE "($regex) *\\(" -- "$@" || { echo "^ $why"; bad=1; }
}
refuse 'unbounded or stateful' 'sprintf|vsprintf|strcpy|stpcpy|strcat|strtok|gets|alloca|strdupa|tmpnam|mktemp|tempnam' '*.[ch]'
refuse 'no error report: use runtime/base/parse.h' 'atoi|atol|atoll|atof|sscanf' '*.[ch]'
refuse 'runs a shell' 'system|popen' '*.[ch]' ':!tests/*'
refuse 'the environment is read in one place only' 'getenv|secure_getenv' '*.[ch]' ':!cli/*' ':!tests/*' ':!docs/examples/*' \
        ':!runtime/lib/caller.c'
refuse 'ends the process below cli/ (children use _exit)' 'exit|abort|quick_exit' '*.[ch]' ':!cli/*' ':!tests/*'
refuse 'not thread-safe, or NSS in a static executable' 'getpwnam|getpwuid|getgrnam|getgrgid|gethostbyname' '*.[ch]' ':!tests/*'
exit $bad
