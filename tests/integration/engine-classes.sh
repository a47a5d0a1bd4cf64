#!/usr/bin/env bash
# The escape classes of classes.sh in containers, of podman (as root and as a user) and docker (as root): the same attempts,
# the same three ways, the same answers. Where an engine keeps less, classes.py says so with the reason.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/engine-lib.sh
. "$(dirname "$0")/engine-lib.sh"
# shellcheck source=tests/integration/classes-lib.sh
. "$here/classes-lib.sh"

contained() {
        engine_ready "$driver"
        "$@"
}

for engine in podman docker; do
        sandboxes_of "$T/of-$engine" $engine -d $engine --image busy:1 --mount type=bind,source=/usr,target=/usr,readonly
        t "$engine: bind_source: exchanged while it is used" contained class bind_source
        t "$engine: mount_target: inside a tree of the work" contained class mount_target
        t "$engine: mount_target: by a link" contained mount_target_by_a_link
        t "$engine: proc_writes: the switches of the machine" contained class proc_writes
        t "$engine: own_executable: what /proc shows of it" contained class own_executable
        t "$engine: descriptors: what the caller had open" contained class descriptors
        t "$engine: descriptors: a directory by one" contained directory_by_a_descriptor
        t "$engine: links: followed on the host" contained class links outside
        t "$engine: links: landed through one" contained links_landed
        t "$engine: hard_links: names and links of what is under rules" contained class hard_links unchanged
        t "$engine: reopened: a descriptor of what is under rules" contained class reopened unchanged
        t "$engine: masked: a hidden file by every way" contained class masked
        t "$engine: git_of_the_host: hooks and configuration" contained class git_of_the_host planted_in_git
        t "$engine: missing_names: made because they were missing" contained class missing_names nothing_made
        t "$engine: helpers_by_name: programs on a PATH of the work" contained class helpers_by_name outside
        t "$engine: own_policy: policy and protocol" contained class own_policy no_policy
        t "$engine: typing: for the caller" contained class typing
        t "$engine: others: processes of the host and pid 1" contained class others
        t "$engine: proc_pid: root, cwd, environ" contained class proc_pid
        t "$engine: walls: the same for every command" contained class walls
        t "$engine: namespaces: and calls with a history" contained class namespaces
        t "$engine: other_numbers: io_uring, x32, i386" contained class other_numbers
        t "$engine: families: of sockets" contained class families
        t "$engine: abstract_sockets: of the host" contained class abstract_sockets outside
        t "$engine: path_sockets: of the host" contained class path_sockets outside
        t "$engine: cgroups: of the host" contained class cgroups
        t "$engine: privileged_files: set-id, devices, capabilities" contained class privileged_files
done
finish
