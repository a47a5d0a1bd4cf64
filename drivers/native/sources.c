/*
 * DOC: theory of operation
 *
 * The file server looks at the paths of its regions by a timer (fs/watch.c); the supervisor looks before each
 * command, and when the sandbox is gone, so that no change of a short run stays unsaid. What both find is
 * told once. A file that an editor has replaced is beyond the file server, which may open what was pinned at
 * the start and nothing else (fs/confine.c): it asks, and gets descriptors.
 */
#include "drivers/native/sources.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/fdpass.h"

void sources_init(struct sources *s, const struct driver_plan *plan,
                  const struct sandbox_callbacks *callbacks, void *arg) {
        *s = (struct sources){ .plan = plan, .callbacks = callbacks, .arg = arg };
        for (size_t i = 0; i < plan->n_regions; i++)
                s->pins[i] = plan->regions[i].pin;
}

/* Once until it becomes another change, and never after the last word. */
static void tell(struct sources *s, const struct guard_notice *notice) {
        char *last = s->told[notice->region];
        char text[sizeof(s->told[0])];

        (void) snprintf(text, sizeof(text), "%.7s%.*s", notice->op, NOTICE_TEXT_MAX - 1, notice->detail);
        if (strcmp(last, text) == 0 || strncmp(last, "stop", 4) == 0)
                return;
        memcpy(last, text, sizeof(text));
        s->callbacks->notice(s->arg, notice);
}

static bool may_follow(const struct native_region *region) {
        return region->is_file && region->on_change == SOURCE_CHANGE_STOP;
}

static int check(struct sources *s, size_t index, struct error *err) {
        const struct native_region *region = &s->plan->regions[index];
        const bool stop = region->on_change == SOURCE_CHANGE_STOP;
        struct guard_notice notice = { .type = NOTICE_SOURCE_CHANGED, .region = (uint32_t) index };
        struct pin_change change = { 0 };
        struct pin next;

        if (pin_check(&s->pins[index], &change) != -ESTALE)
                return 0;
        next = s->pins[index];
        if (may_follow(region) && pin_follow(&next, &s->plan->policy) == 0)
                return 0; /* the file server will ask */
        (void) snprintf(notice.op, sizeof(notice.op), "%s", stop ? "stop" : "pin");
        (void) snprintf(notice.path, sizeof(notice.path), "%s", region->pin.path);
        (void) snprintf(notice.rule, sizeof(notice.rule), "%s", change.was);
        (void) snprintf(notice.detail, sizeof(notice.detail), "%s", change.now);
        tell(s, &notice);
        return stop ? error_set(err, -ESTALE, "bind source '%s' changed", ESC(region->pin.path)) : 0;
}

int sources_check(struct sources *s, struct error *err) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < s->plan->n_regions; i++)
                r = check(s, i, err);
        return r;
}

/* As the one who works could; root's descriptors are used by whom the mode of the file lets in. */
static int open_as(const struct native_id *id, int fd, int flags) {
        char path[sizeof("/proc/self/fd/") + 12];
        int r;

        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        if (id->switch_user) {
                (void) setfsgid(id->host_gid);
                (void) setfsuid(id->host_uid); /* from root: takes the rights over files away too */
        }
        r = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        r = r < 0 ? -errno : r;
        if (id->switch_user) {
                (void) setfsuid(geteuid());
                (void) setfsgid(getegid());
        }
        return r;
}

static int follow(struct sources *s, uint32_t index, struct guard_successor *ret, int fds[3], size_t *ret_n) {
        const struct native_region *region = &s->plan->regions[index];
        struct pin *pin = &s->pins[index];
        int r;

        if (!may_follow(region))
                return -ESTALE;
        r = pin_follow(pin, &s->plan->policy);
        if (r < 0)
                return r;
        ret->dev = pin->dev;
        ret->ino = pin->ino;
        ret->btime_ns = pin->btime_ns;
        fds[(*ret_n)++] = pin->fd;
        r = open_as(&s->plan->id, pin->fd, O_RDONLY);
        if (r < 0)
                return 0; /* whoever opens it inside is refused, as he would be here */
        fds[(*ret_n)++] = r;
        r = region->kind == REGION_RO ? -EROFS : open_as(&s->plan->id, pin->fd, O_RDWR);
        if (r >= 0)
                fds[(*ret_n)++] = r;
        return 0;
}

static void answer(struct sources *s, const struct guard_notice *notice, int sock) {
        struct guard_successor reply = { .region = notice->region };
        struct guard_notice event = *notice;
        int fds[3];
        size_t n = 0;

        reply.result = follow(s, notice->region, &reply, fds, &n);
        if (fdpass_send(sock, &reply, sizeof(reply), fds, n) < 0)
                reply.result = -EPIPE; /* the file server is gone, which is told elsewhere */
        for (size_t i = 1; i < n; i++)
                (void) fd_close(fds[i]);
        if (reply.result < 0)
                return;
        (void) snprintf(event.op, sizeof(event.op), "follow");
        tell(s, &event);
}

void sources_notice(struct sources *s, const struct guard_notice *notice, int sock) {
        static const char *const known[] = { "stop", "pin" };

        if (strcmp(notice->op, "ask") == 0)
                answer(s, notice, sock);
        for (size_t i = 0; i < ARRAY_SIZE(known); i++)
                if (strcmp(notice->op, known[i]) == 0)
                        tell(s, notice);
}
