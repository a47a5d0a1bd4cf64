/*
 * casefold.h - whether a directory finds "a" under the name "A"
 */
#pragma once

#include <stdbool.h>

/**
 * casefold_detect() - whether names of the directory or file open as @fd are folded
 * By the type of the file system, by the directory's flag, and by what an entry is found under: there are
 * more file systems that fold than say so (a Mac's folder in a virtual machine, XFS and ZFS made so).
 * Directories below are not looked at. Blocks. Return: also true when that cannot be found out.
 */
bool casefold_detect(int fd, bool is_dir);
