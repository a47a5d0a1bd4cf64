/*
 * renaming.h - one rename request, shared by rename.c and shift.c; private to them
 */
#pragma once

#include <stdbool.h>

#include "fs/spot.h"

/** struct end - one side of a rename */
struct end {
        struct spot spot;
        bool exists;
        enum node_layer layer;
        struct facts facts;
        int where; /* enum spot_write */
};

/** struct renaming - the tree is held for writing */
struct renaming {
        struct server *server;
        struct end from, to;
        unsigned int flags;
};

/** renaming_moved() / renaming_exchanged() - the nodes follow what was done to their objects. Return: 0 or
 * -ENOMEM. */
int renaming_moved(struct renaming *r) __attribute__((warn_unused_result));
int renaming_exchanged(struct renaming *r) __attribute__((warn_unused_result));

/**
 * shift() - the rename in a region where everything goes to the upper (shift.c)
 * Both ends were admitted. A directory of the lower moves by a record of where it came from, nothing is
 * copied. Return: 0, -ENOTEMPTY, -EROFS (something below is protected), -EXDEV (too much to look at, or a
 * path too long to be recorded), -errno.
 */
int shift(struct renaming *r) __attribute__((warn_unused_result));
