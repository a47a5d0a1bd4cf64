/*
 * transcript.h - calls and what came of them, one line each, equal on every file system that keeps POSIX
 *
 * A topic is a function that runs twice. The first time it makes its fixtures: file(), dir() and their like
 * act and CALL() does not. The second time it is the other way round. So what the calls meet may have been
 * made outside of the file system under test (its lower layer), or inside.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/** struct topic - a group of scenes */
struct topic {
        const char *name;
        void (*run)(void);
};

extern const struct topic topics_names[], topics_rights[], topics_files[], topics_limits[];

/** enum thing - what may be at a name */
enum thing {
        THING_NONE,
        THING_FILE,
        THING_DIR,
        THING_FULL,
        THING_FIFO,
        THING_SOCK,
        THING_LINK,
        THING_DANGLING,
        THING_LOOP,
        THING_COUNT
};

extern const char *const thing_names[THING_COUNT];

/** transcript_begin() - @making: fixtures are made, else calls are; @root_fd: the current directory */
void transcript_begin(bool making, int root_fd);
/** calls_run() - whether CALL() acts */
bool calls_run(void);

/** scene() - a fresh directory becomes the current one; the name is printf's */
void scene(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/** said() - print what a call returned, and its errno when that is -1. Return: @result */
long said(const char *what, int line, long result);
/** said_fd() - the same for what returns a descriptor: its number does not matter. Return: @fd */
int said_fd(const char *what, int line, int fd);
/** note() - a line of its own; the text is printf's */
void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define CALL(call) (calls_run() ? said(#call, __LINE__, (errno = 0, (long) (call))) : -1L)
#define OPEN(call) (calls_run() ? said_fd(#call, __LINE__, (errno = 0, (call))) : -1)
/* opened and closed again */
#define TRY(call) shut(OPEN(call))

/** shut() - close a descriptor; -1 is none */
void shut(int fd);
/** show() - type, mode, links, size and owner of a name; a symlink is not followed */
void show(const char *path);
/** show_fd() - the same of what is open */
void show_fd(int fd);
/** show_text() - the first bytes of a file */
void show_text(const char *path);
/** show_names() - what a directory lists, sorted */
void show_names(const char *path);

/** file(), dir(), full(), fifo(), sock(), sym(), hard(), mode(), foreign() - fixtures; failure ends the
 * program */
void file(const char *path, const char *text, mode_t mode);
void dir(const char *path, mode_t mode);
void full(const char *path);
void fifo(const char *path, mode_t mode);
void sock(const char *path);
void sym(const char *target, const char *path);
void hard(const char *old, const char *path);
void mode(const char *path, mode_t mode);
/* give it to somebody else where that can be done; else nothing */
void foreign(const char *path);
/** make() - a thing of that kind at @path */
void make(enum thing thing, const char *path);
