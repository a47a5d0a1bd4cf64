#include "fs/handle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/attr.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/sys.h"

uint64_t handle_new(struct server *s, struct node *node, int fd, int flags) {
        struct handle *h = calloc(1, sizeof(*h));

        if (!h)
                return 0;
        table_lock(s->table);
        h->id = slots_add(&s->handles, h);
        if (!h->id) {
                table_unlock(s->table);
                free(h);
                return 0;
        }
        h->node = node;
        h->fd = fd;
        h->flags = flags;
        h->writes = (flags & O_ACCMODE) != O_RDONLY;
        h->next = node->handles;
        if (h->next)
                h->next->prev = h;
        node->handles = h;
        node->refs++;
        node->writers += h->writes;
        table_unlock(s->table);
        return h->id;
}

void handle_free(struct server *s, uint64_t id) {
        struct handle *h;

        table_lock(s->table);
        h = slots_get(&s->handles, id);
        if (h) {
                slots_del(&s->handles, id);
                *(h->prev ? &h->prev->next : &h->node->handles) = h->next;
                if (h->next)
                        h->next->prev = h->prev;
                h->node->writers -= h->writes;
                node_put_locked(s->table, h->node);
        }
        table_unlock(s->table);
        if (h)
                (void) fd_close(h->fd);
        free(h);
}

int handle_fd(struct server *s, uint64_t id) {
        const struct handle *h;
        int fd;

        table_lock(s->table);
        h = slots_get(&s->handles, id);
        fd = h ? h->fd : -EBADF;
        table_unlock(s->table);
        return fd;
}

struct node *handle_node(struct server *s, uint64_t id) {
        const struct handle *h;
        struct node *node;

        table_lock(s->table);
        h = slots_get(&s->handles, id);
        node = h ? h->node : NULL;
        if (node)
                node->refs++;
        table_unlock(s->table);
        return node;
}

int handle_dup(struct server *s, struct node *node) {
        int fd = -EBADF;

        /* dup(2) does not block; under the lock, so that the descriptor cannot be closed meanwhile. One that
         * is open for writing serves every purpose. */
        table_lock(s->table);
        for (const struct handle *h = node->handles; h; h = h->next) {
                if (fd >= 0 && !h->writes)
                        continue;
                (void) fd_close(fd);
                fd = fcntl(h->fd, F_DUPFD_CLOEXEC, 3);
                if (fd < 0)
                        fd = -errno;
                if (h->writes)
                        break;
        }
        table_unlock(s->table);
        return fd;
}

int handle_dup_to_change(struct server *s, struct node *node) {
        AUTO_FD int fd = handle_dup(s, node);
        struct stat st;
        bool admitted;

        if (fd < 0)
                return TAKE(fd, -1);
        if (fstat(fd, &st) < 0)
                return -errno;
        table_lock(s->table);
        admitted = node->names && node->dev == st.st_dev && node->host == st.st_ino;
        table_unlock(s->table);
        /* removed or replaced under a rule, a file is gone for the work and not for the host */
        if (!admitted && st.st_nlink > 0 && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY)
                return -EROFS;
        return TAKE_FD(fd);
}

/* a file that took its owner's rights away after it was opened is still to be reopened */
static bool open_up(int fd, mode_t mode) {
        return S_ISREG(mode) && (mode & 0600) != 0600 && attr_change_mode(fd, (mode & 07777) | 0600) == 0;
}

void handle_repoint_fd(struct node *node, int object) {
        char path[sizeof("/proc/self/fd/") + 12];
        struct facts facts;
        bool opened_up;

        if (!node->handles || facts_at(object, "", &facts) < 0 || !S_ISREG(facts.st.st_mode))
                return;
        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", object);
        opened_up = open_up(object, facts.st.st_mode);
        /* the list does not change: handles come and go under the tree */
        for (const struct handle *h = node->handles; h; h = h->next) {
                AUTO_FD int fd = open(path, (h->flags & O_ACCMODE) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

                if (fd >= 0)
                        (void) dup3(fd, h->fd, O_CLOEXEC);
        }
        /* nothing is lost when this fails: the owner may do more than he asked for */
        if (opened_up && attr_change_mode(object, facts.st.st_mode & 07777) < 0)
                return;
}

void handle_repoint(struct node *node, int dir_fd, const char *name) {
        AUTO_FD int object = node->handles ? open_beneath(dir_fd, name, O_PATH, 0) : -1;

        if (object >= 0)
                handle_repoint_fd(node, object);
}
