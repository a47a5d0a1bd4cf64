/*
 * patch.h - changes as a patch in git's format
 */
#pragma once

#include "fs/diff.h"
#include "fs/lines.h"
#include "fs/moves.h"

/** struct patch - what was shown of one change */
struct patch {
        struct lines lines;
        bool binary; /* its content is not in the patch */
};

/* longer files are not shown by content */
enum { PATCH_BYTES_MAX = 16 << 20 };

/** struct patch_source - what changes are read from; @layers borrowed */
struct patch_source {
        const struct diff_layers *layers;
        struct moves moves;
};

/** patch_source_init() - as for a walk of the same layers that follows. Return: 0, -ENOMEM, -errno. */
int patch_source_init(struct patch_source *s, const struct diff_layers *layers)
        __attribute__((warn_unused_result));
void patch_source_deinit(struct patch_source *s);

/**
 * patch_change() - append what git apply needs to repeat the change
 * Renamed directories become renames of their files, deleted ones deletions of theirs; each path of git's is
 * in the patch once. What git cannot express (binary and long files, modes of directories, empty directories,
 * special files) is a line that begins with
 * "# ", which git apply passes over.
 * @out: NULL: count only
 * Blocks (reads both versions). Return: 0, -ENOMEM, -E2BIG, -errno.
 */
int patch_change(const struct patch_source *source, const struct change *change, struct buf *out,
                 struct patch *ret) __attribute__((warn_unused_result));
