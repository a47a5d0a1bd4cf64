#!/usr/bin/env bash
# Hosts in every spelling, and TLS in every shape, sent from inside a sandbox: whatever says the host, the verdict is one
if [ -z "${COFFERDAM_NET_NS-}" ]; then
        flags=(-nm)
        # the capabilities are for the lab, not for the runs: see inside() below
        [ "$(id -u)" = 0 ] || flags=(--map-current-user --keep-caps -nm)
        COFFERDAM_NET_NS=1 exec unshare "${flags[@]}" "$0" "$@"
fi
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/net-lab.sh
. "$here/net-lab.sh"
mount --bind "$T/resolv.conf" /etc/resolv.conf || { echo '1..0 # SKIP no mount over /etc/resolv.conf'; exit 0; }
as_caller=()
[ "$(id -u)" = 0 ] || as_caller=(setpriv --ambient-caps=-all --inh-caps=-all)

# inside CHECK OPTION...: a check of proxy-checks.py in a run with these options
inside() {
        local check=$1
        shift
        cp "$here/proxy-checks.py" "$here/../assets/net/hosts.tsv" .
        timeout -k 5 100 "${as_caller[@]}" "$C" run --network allowlist "$@" -e PROXY=3128 -e HOSTS_TSV=hosts.tsv -e LAB= -- \
                python3 proxy-checks.py "$check"
}
bucher=b$(printf '\xc3\xbc')cher.example
raw=(--allow 'allowed.example:*/tcp' --allow "$bucher:*/tcp" --allow '93.184.216.34:*/tcp')
tls=(--allow allowed.example --allow "$bucher")

# each goes red when one place reads a host otherwise than host_parse(): without fold(), say, or dns_question_parse()'s
# look at dots within a label
t 'the host table through CONNECT' inside table_through_connect "${raw[@]}"
t 'the host table through HTTP' inside table_through_http "${raw[@]}"
t 'the host table through DNS' inside table_through_dns "${tls[@]}"
t 'the host table through SNI' inside table_through_sni "${tls[@]}"
# goes red without take_hello()
t 'SNI, CONNECT and Host agree or are refused, 27 cells' inside cells --allow allowed.example
# goes red without may_say()
t 'without a proxy: the name that is looked up, and SNI or Host' inside cells_led --allow allowed.example
t 'a ClientHello in pieces' inside split_hello --allow allowed.example
t 'a ClientHello with GREASE, in records, with ECH' inside hellos --allow allowed.example
# go red without hello_answer_feed()
t 'a ClientHello that the server asks for' inside retries --allow 'allowed.example:*'
t 'the same without a proxy' inside retries_led --allow 'allowed.example:*'
# goes red without policy_dial()
t 'what names resolve to' inside names --allow '*.example' --deny denied.example
finish
