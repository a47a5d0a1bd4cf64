#include "fs/streams.h"

#include <stdlib.h>

#include "runtime/base/cleanup.h"

struct streams *streams_new(void) {
        struct streams *s = calloc(1, sizeof(*s));

        if (s)
                (void) pthread_mutex_init(&s->lock, NULL);
        return s;
}

struct streams *streams_free(struct streams *s) {
        if (!s)
                return NULL;
        for (size_t i = 0; i < STREAMS_MAX; i++)
                s->slots[i] = stream_free(s->slots[i]);
        (void) pthread_mutex_destroy(&s->lock);
        free(s);
        return NULL;
}

struct stream *stream_free(struct stream *stream) {
        if (!stream)
                return NULL;
        (void) fd_close(stream->fd);
        free(stream->data);
        names_deinit(&stream->names);
        free(stream);
        return NULL;
}

struct stream *streams_take(struct streams *s, uint64_t node, uint64_t host, off_t off) {
        struct stream *found = NULL;

        (void) pthread_mutex_lock(&s->lock);
        for (size_t i = 0; !found && i < STREAMS_MAX; i++)
                if (s->slots[i] && s->slots[i]->node == node && s->slots[i]->host == host &&
                    s->slots[i]->off == off)
                        found = TAKE_PTR(s->slots[i]);
        (void) pthread_mutex_unlock(&s->lock);
        return found;
}

void streams_trim(struct streams *s) {
        (void) pthread_mutex_lock(&s->lock);
        for (size_t i = 0; i < STREAMS_MAX; i++)
                s->slots[i] = stream_free(s->slots[i]);
        (void) pthread_mutex_unlock(&s->lock);
}

void streams_give(struct streams *s, struct stream *stream) {
        struct stream *old;
        unsigned int i = 0;

        (void) pthread_mutex_lock(&s->lock);
        while (i < STREAMS_MAX && s->slots[i])
                i++;
        if (i == STREAMS_MAX) {
                i = s->next;
                s->next = (s->next + 1) % STREAMS_MAX;
        }
        old = s->slots[i];
        s->slots[i] = stream;
        (void) pthread_mutex_unlock(&s->lock);
        (void) stream_free(old);
}
