/*
 * fold.h - the other spellings under which a file system that folds case finds a name
 *
 * ext4, f2fs, tmpfs (casefold), vfat, exfat, ntfs and network file systems differ in the details; what is
 * folded here is a superset for the names that the guard rules, which are ASCII, and the simple case pairs of
 * Latin, Greek, Cyrillic and Armenian letters for others. Not folded: composed against decomposed letters.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/**
 * fold_name() - @name in lower case, without ignorable characters (U+200C and the like, as ext4 and HFS+
 * ignore them), with compatibility letters (U+212A, U+017F) as ASCII
 * @out: room for @len bytes
 * Bytes that are not UTF-8 stay. Return: bytes written.
 */
size_t fold_name(const char *name, size_t len, char *out);

/** fold_tail() - length of the folded @name without final dots and spaces (vfat and ntfs drop them) */
size_t fold_tail(const char *name, size_t len);

/** fold_alias() - whether the folded @name may be a generated 8.3 name ("git~1", "gi7eba~1") of @literal
 * (folded) */
bool fold_alias(const char *name, size_t len, const char *literal, size_t literal_len);
