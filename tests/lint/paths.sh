#!/bin/sh
# fs/ reaches files from pinned descriptors only. A call that takes a path from the root or the current directory is
# in this list with its reason, or it is an error. What a line may say besides: /proc/self/fd/N in a variable.
set -eu
cd "$(dirname "$0")/../.."
# FILE|TEXT OF THE CALL|why
allow='fs/attr.c|chmod(path, mode)|/proc/self/fd of an O_PATH descriptor, before fchmodat2 (Linux 6.6)
fs/casefold.c|readlink(link|/proc/self/fd of a pin: its last name is compared; before the run
fs/confine.c|open("/dev/fuse", O_PATH|named to landlock, not used
fs/handle.c|open(path, (h->flags|/proc/self/fd of an O_PATH descriptor
fs/io.c|open(path, flags|/proc/self/fd: a file without a name, again
fs/layer.c|linkat(AT_FDCWD, proc|/proc/self/fd of an O_TMPFILE file
fs/layer.c|open(w->proc|/proc/self/fd of an O_PATH descriptor
fs/layer.c|xattr(w.proc|/proc/self/fd of an O_PATH descriptor
fs/make.c|linkat(AT_FDCWD, path|/proc/self/fd of an open file
fs/names.c|open(path, O_RDONLY|/proc/self/fd of a directory that may not be searched
fs/place.c|open(path, flags|/proc/self/fd of an O_PATH descriptor
fs/sensitive.c|open(*place|the sensitive places of the host, to learn their identity: before the run
fs/sensitive.c|readlink(link|/proc/self/fd of a pin: text for a message
fs/wide.c|chmod(ret->proc|/proc/self/fd of an O_PATH descriptor
fs/wide.c|chmod(w->proc|/proc/self/fd of an O_PATH descriptor
fs/workers.c|open("/dev/fuse"|a channel of its own for a worker
fs/sole.c|fanotify_mark(group, FAN_MARK_ADD|the directory dir_fd itself
fs/server.c|readlink(link|/proc/self/fd of a region root: text for the judge
fs/spot.c|readlink(link|/proc/self/fd: the text is compared, never opened
fs/walk.c|open("/", O_PATH|where the resolution of a source begins: before the run
fs/xattr.c|xattr(at.path|/proc/self/fd of an O_PATH descriptor'
calls='open|creat|fopen|freopen|opendir|stat|lstat|stat64|access|eaccess|euidaccess|chmod|lchmod|chown|lchown|truncate|readlink|mkdir|rmdir|unlink|remove|rename|link|symlink|mknod|mkfifo|utime|utimes|lutimes|statfs|statvfs|chdir|chroot|mount|umount|umount2|realpath|canonicalize_file_name|nftw|ftw|fts_open|glob|scandir|mkstemp|mkdtemp|tmpfile|l?setxattr|l?getxattr|l?listxattr|l?removexattr|inotify_add_watch|fanotify_mark|exec[lv]p?e?|file_put|name_to_handle_at|open_by_handle_at|swapon|acct'
bad=0
git grep -nE "(^|[^a-zA-Z0-9_>.])($calls) *\(([^0-9]|$)|AT_FDCWD|at2?\([^,]*, *\"/" -- 'fs/*.c' 'fs/*.h' | grep -vE '^[^:]*:[0-9]+: *(/?\*|//)' | {
        while IFS= read -r hit; do
                ok=
                while IFS='|' read -r in text why; do
                        case $hit in "$in:"*"$text"*) ok=$why ;; esac
                done <<END
$allow
END
                [ "$ok" ] || { echo "$hit"; bad=1; }
        done
        [ "$bad" = 0 ] || echo '^ not from a pinned descriptor: use open_beneath() or an *at() call, or argue it in tests/lint/paths.sh'
        exit "$bad"
}
# each reason still has its call
printf '%s\n' "$allow" | while IFS='|' read -r file text why; do
        grep -qF "$text" "$file" || { echo "paths.sh: '$text' is no longer in $file ($why)"; exit 1; }
done
