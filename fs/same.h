/*
 * same.h - whether an upper object says nothing new
 */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

/* longer files are taken as different without being read */
enum { SAME_BYTES_MAX = 16 << 20 };

/**
 * same_object() - whether two objects that are no directories have equal type, permission bits and content
 * @a, @b: what fstatat(2) said of @name in @a_dir and @b_dir
 * Reads both files when their sizes are equal. What cannot be read is not the same.
 */
bool same_object(int a_dir, const struct stat *a, int b_dir, const struct stat *b, const char *name);
