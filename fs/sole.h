/*
 * sole.h - cache: exclusive: the kernel is told to remember for as long as the run is the only writer
 *
 * See sole.c. "Alone" means: nobody else has been seen yet.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "fs/node.h"

struct server;

/** struct sole - of all exclusive regions, with a thread of its own */
struct sole {
        int wake_fd; /* eventfd, owned; -1: none */
        pthread_t thread;
        bool running;
        atomic_bool alone; /* long timeouts are given */
        atomic_bool stop;
        atomic_bool told; /* somebody has given @why */
        char why[256];    /* before @alone was cleared */
};

/** sole_start() - the regions' roots are watched from now on, before any request. Failing ends what is
 * exclusive, with a notice. */
void sole_start(struct server *s);
/** sole_stop() - waits for the thread */
void sole_stop(struct server *s);

/** sole_alone() - whether @region is exclusive and nobody else was seen to write */
bool sole_alone(const struct server *s, uint32_t region);

/** sole_end() - serve as shared from now on, because of @why; the first reason is told. Cheap. */
void sole_end(struct server *s, const char *why);

/**
 * sole_watch() - see to it that changes by others in the directory @node are noticed
 * To be called before anything that is in it is looked at. @fd: of it, O_PATH
 */
void sole_watch(struct server *s, struct node *node, int fd);

/** sole_entry_s() - seconds for which a name of @region may be remembered */
double sole_entry_s(const struct server *s, uint32_t region);

/** sole_attr_s() - the same for the attributes @st of an object of @region. @watched: a directory whose names
 * are watched */
double sole_attr_s(const struct server *s, uint32_t region, const struct stat *st, bool watched);
