# shellcheck shell=bash
# kube-lab-lib.sh - a real server for scripts that have sourced lib.sh: the lab that COFFERDAM_K8S=1 ./dev test starts
#
# lab_ready            ends the script where there is none, or who executes it is not root
# lab_namespace NS     a namespace that goes with the script: account worker with its Role, KUBECONFIG is the worker's;
#                      then `pods` are there, and `clear` waits until there are none
# lab_context NS SA_NS SA   KUBECONFIG is that of the service account SA of namespace SA_NS, with namespace NS; its token
#                      is in $account/token
# lab_token NS SA      one of its own, for two hours
# lab_roles NS         the Role of images/kubernetes/rbac.yaml in namespace NS, for its service account worker
# lab_image REF FILE   an image of busybox and bash with /usr, and FILE... with what they are linked to, in the lab
# admin ARG...         kubectl as the administrator
# lab_end              removes the images, and waits for no namespace
LAB=${K8S_LAB:-/var/tmp/k8s-lab}
lab_images=()
lab_ready() {
        [ -n "${COFFERDAM_K8S-}" ] || { echo '1..0 # SKIP opt-in: COFFERDAM_K8S=1 starts a Kubernetes server' && exit 0; }
        [ "$(id -u)" = 0 ] || { echo '1..0 # SKIP only root has the keys of the lab' && exit 0; }
        PATH=$PATH:$LAB/tools/usr/bin
        admin version >/dev/null 2>&1 || { echo 'Bail out! the lab does not answer' && exit 1; }
}
admin() { timeout -k 2 60 kubectl --kubeconfig "$LAB/conf/admin.kubeconfig" "$@"; }

lab_roles() {
        sed "s/ironflow-agents/$1/; s/namespace: ironflow\$/namespace: $1/; s/name: ironflow-worker\$/name: worker/" \
                "$TOP/images/kubernetes/rbac.yaml" | admin apply -f - >/dev/null
}

lab_token() {
        admin create --raw "/api/v1/namespaces/$1/serviceaccounts/$2/token" -f - \
                <<<'{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":7200}}' |
                jq -r .status.token
}

lab_context() {
        account=$(mktemp -d "$T/account.XXXXXX")
        export KUBECONFIG=$account/kubeconfig
        lab_token "$2" "$3" >"$account/token"
        cat >"$KUBECONFIG" <<END
apiVersion: v1
kind: Config
current-context: lab
contexts: [{name: lab, context: {cluster: lab, user: worker, namespace: $1}}]
clusters: [{name: lab, cluster: {server: "https://127.0.0.1:16443", certificate-authority: $LAB/pki/ca.crt}}]
users: [{name: worker, user: {tokenFile: $account/token}}]
END
}

lab_image() {
        local ref=$1 name file
        local -a rows=(bin/busybox=/bin/busybox usr/local/ usr/local/bin/ tmp/ "etc/passwd=$T/passwd" "etc/group=$T/group")
        shift
        printf 'root:x:0:0:root:/root:/bin/sh\napp:x:4321:4322::/srv/app:/bin/sh\n' >"$T/passwd"
        echo root:x:0: >"$T/group"
        for name in $(busybox --list); do [ "$name" = busybox ] || rows+=("bin/$name->busybox"); done
        for file in /bin/bash "$@"; do
                rows+=("${file#/}=$file")
                for name in $(ldd "$file" | grep -o '/[^ ]*'); do [[ " ${rows[*]} " == *" ${name#/}=$name "* ]] || rows+=("${name#/}=$name"); done
        done
        python3 "$SHARED/k8s-lab/mkimage.py" "$T/image.tar" "$ref" '{"Env":["OF_IMAGE=yes","PATH=/usr/local/bin:/bin:/usr/bin"],"WorkingDir":"/etc","Cmd":["false"]}' "${rows[@]}" >/dev/null &&
                ctr -a "$LAB/run/containerd.sock" -n k8s.io images import "$T/image.tar" >"$T/import" 2>&1 || {
                cat "$T/import"
                return 1
        }
        rm "$T/image.tar"
        lab_images+=("$ref")
}

lab_namespace() {
        lab_ns=$1
        trap lab_namespace_end EXIT
        trap 'echo "Bail out! killed"; lab_namespace_end; exit 143' INT TERM HUP
        admin create ns "$1" >/dev/null && admin create sa worker -n "$1" >/dev/null && lab_roles "$1" || { echo 'Bail out! no namespace' && exit 1; }
        lab_context "$1" "$1" worker
}
lab_namespace_end() {
        admin delete ns "$lab_ns" --wait=false >/dev/null 2>&1
        clean
}
pods() { admin get pods,jobs -n "$lab_ns" -o name; }
no_pods() { [ -z "$(pods)" ]; }
clear() { wait_for 60 no_pods || fail "left behind: $(pods)"; }

lab_end() { [ ${#lab_images[@]} = 0 ] || ctr -a "$LAB/run/containerd.sock" -n k8s.io images rm "${lab_images[@]}" >/dev/null 2>&1; }
