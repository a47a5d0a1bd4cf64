/*
 * batch-parts.h - what the files of the batch share; used by batch.c and batch-rename.c only
 */
#pragma once

#include <sys/stat.h>

#include "fs/batch.h"

/** batch_step() - tell a test what comes next */
void batch_step(const struct batch *b, const char *what);

/** batch_open_upper_parent() - the upper directory that holds entry @i, whose object must be the one of the
 * plan. @ret_st: of that object. Return: descriptor, -ESTALE, -errno. */
int batch_open_upper_parent(const struct batch *b, size_t i, struct stat *ret_st)
        __attribute__((warn_unused_result));

/** batch_check_parent() - whether the pinned parent is still what the path leads to. Return: 0, -ESTALE,
 * -errno. */
int batch_check_parent(const struct batch *b, size_t i) __attribute__((warn_unused_result));

/** batch_adopt_dir() - note in the upper which directory of the host, now called @name, that of entry @i
 * stands for. Return: 0, -ESTALE, -errno. */
int batch_adopt_dir(const struct batch *b, size_t i, const char *name) __attribute__((warn_unused_result));

/** batch_commit_rename() - rename the host's directory, and let the upper's stand for it. Return: 0, -EEXIST
 * (the new name is taken), -ESTALE, -EXDEV, -errno. */
int batch_commit_rename(const struct batch *b, size_t i) __attribute__((warn_unused_result));

/** batch_undo_rename() - back. Return: 0, -ESTALE, -errno. */
int batch_undo_rename(const struct batch *b, size_t i) __attribute__((warn_unused_result));
