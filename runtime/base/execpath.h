/*
 * execpath.h - execute a program that is looked for in a PATH
 */
#pragma once

/**
 * exec_in_path() - execvp(3) with a PATH that is given, and without its guess of a shell
 * @argv, @env: as execve(2) takes them; @argv has a first word
 * @path: directories, joined by ':'; empty ones are left out; NULL: none
 *
 * A script without "#!" is ENOEXEC, as in every container engine. Async-signal-safe.
 * Return: only when it fails: errno (positive), ENOENT when nothing was found.
 */
int exec_in_path(char *const argv[], char *const env[], const char *path) __attribute__((nonnull(1, 2)));
