/*
 * progress.h - how far a pull is: a bar on a terminal, a line for each layer elsewhere
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** struct progress_item - one layer; another process may write it at any time */
struct progress_item {
        const char *name;              /* digits of its digest; borrowed */
        volatile uint64_t done, total; /* bytes */
        volatile uint64_t left_out;    /* devices */
        volatile bool unpacking, finished, there, restart, waiting;
        bool told, told_waiting;
};

/** struct progress - all of them */
struct progress {
        bool quiet, terminal;
        uint64_t done, total; /* bytes of this look */
        size_t finished, waiting;
        unsigned int width; /* columns */
        bool drawn;
};

/** progress_init() - @quiet: say nothing */
void progress_init(struct progress *p, bool quiet);
/** progress_note() - count layer @index in; index 0 starts a new look */
void progress_note(struct progress *p, struct progress_item *item, size_t index);
/** progress_show() - of @n layers, on standard error */
void progress_show(struct progress *p, size_t n);
/** progress_end() - leave the terminal as it was found */
void progress_end(struct progress *p);
/** size_text() - "12.3 MB". Return: @out. */
const char *size_text(uint64_t bytes, char *out, size_t size);
