/*
 * moves.h - directories that the work renamed: an upper directory whose lower one stands at another path
 *
 * overlayfs's "user.overlay.redirect" on the upper directory names the lower one: "/a/b" from the root of the
 * layer, or a plain name next to where the directory's lower parent has it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/buf.h"

/** struct move - one directory; strings owned */
struct move {
        char *path; /* where the work sees it */
        char *from; /* where the lower has it; both sane (pathfd.h) */
};

/** struct move_place - an entry of an index */
struct move_place {
        const struct move *move;
};

/** struct moves - in the order of a walk: parents before what is below them; zero is the empty list */
struct moves {
        struct move *v;
        size_t n, cap;
        const char **sources; /* the from's, in the order of their bytes; owned array, borrowed strings */
        struct move_place *places; /* the moves in the order of their path's bytes; owned array */
};

/**
 * moves_read() - all that the upper @upper_fd (borrowed) holds
 * Redirects below a directory that is closed to us, or opaque ones, are none.
 * @ret: empty; caller frees with moves_deinit(), also after a failure
 * Return: 0, -EBADMSG (a redirect that is none), -ELOOP (more than DIFF_DEPTH_MAX levels), -ENOMEM, -errno.
 */
int moves_read(int upper_fd, struct moves *ret) __attribute__((warn_unused_result));

/** moves_find() - the move of the upper directory @path, NULL: it was not renamed */
const struct move *moves_find(const struct moves *moves, const char *path);

/** moves_takes() - whether the lower directory @from is shown elsewhere */
bool moves_takes(const struct moves *moves, const char *from);

/** moves_is() - whether the upper directory @name in @dir_fd was renamed */
bool moves_is(int dir_fd, const char *name);

/** moves_set() - let the upper directory open as @fd (for reading) stand for the lower @from; NULL: for the
 * one of its own path. Return: 0 or -errno. */
int moves_set(int fd, const char *from) __attribute__((warn_unused_result));

void moves_deinit(struct moves *moves);
#define AUTO_MOVES __attribute__((cleanup(moves_deinit)))
