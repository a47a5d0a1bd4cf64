#include "runtime/run/record.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/process.h"

void record_init(struct record *record, struct run_dir *dir, int sink_fd) {
        *record = (struct record){ .dir = dir,
                                   .events = { .run_id = dir->id, .file_fd = -1, .sink_fd = sink_fd } };
}

/* state.json with this process as the supervisor: its pid and start time, not a phase, say that a run lives.
 */
static int record_running(struct record *record, const char *phase, struct error *err) {
        char boot[BOOT_ID_SIZE] = "";
        uint64_t start = 0;
        int r;

        r = process_start_time(getpid(), &start);
        if (r == -ESRCH) /* of ourselves */
                return error_set(err, r, "/proc is not mounted: mount -t proc proc /proc");
        if (r < 0)
                return error_set(err, r, "read /proc/self/stat: %s", strerror(-r));
        if (json_object_set_new(record->state, "phase", json_string(phase)) < 0 ||
            json_object_set_new(record->state, "supervisor",
                                json_pack("{s:i,s:I,s:s*}", "pid", (int) getpid(), "start_time",
                                          (json_int_t) start, "boot_id",
                                          process_boot_id(boot) == 0 ? boot : NULL)) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        return run_state_store(record->dir, record->state, false, err);
}

int record_open(struct record *record, const json_t *spec_json, json_t *state, const char *phase,
                struct error *err) {
        const struct run_dir *dir = record->dir;
        AUTO_FREE char *text = NULL;
        int r;

        record->state = state;
        text = json_dumps(spec_json, JSON_INDENT(1));
        if (!state || !text)
                return error_set(err, -ENOMEM, "out of memory");
        r = file_replace_at(dir->fd, "spec.json", text, strlen(text), 0600, false);
        if (r < 0)
                return error_set(err, r, "write spec.json of run '%s': %s", dir->id, strerror(-r));
        record->events.file_fd =
                openat(dir->fd, "events.jsonl", O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
        if (record->events.file_fd < 0)
                return error_set(err, -errno, "make events.jsonl of run '%s': %s", dir->id, strerror(errno));
        return record_running(record, phase, err);
}

void record_store(struct record *record, bool durable) {
        struct error err = { 0 };
        const int r = run_state_store(record->dir, record->state, durable, &err);

        if (r < 0 && !record->stale)
                events_emit(&record->events, "sandbox_degraded",
                            json_pack("{s:s,s:s,s:o}", "wanted", "state.json", "got", "as it was before",
                                      "reason", json_from_bytes(err.msg, ERROR_MSG_MAX)));
        record->stale = r < 0;
}

void record_phase(struct record *record, const char *phase) {
        (void) json_object_set_new(record->state, "phase", json_string(phase));
        record_store(record, false);
}

void record_close(struct record *record, int exit_code, const char *failure_code, uint32_t held, bool keep) {
        json_t *state = record->state;

        if (!state || (!keep && held == 0)) {
                (void) run_dir_remove(record->dir);
                record->stale = false;
                return;
        }
        (void) json_object_set_new(state, "exit_code", json_integer(exit_code));
        (void) json_object_set_new(state, "failure_code", json_string(failure_code));
        (void) json_object_set_new(state, "held", json_integer(held));
        (void) json_object_set_new(state, "phase", json_string("finished"));
        (void) json_object_del(state, "supervisor");
        record_store(record, true);
}

void record_deinit(struct record *record) {
        json_decref(record->state);
        record->state = NULL;
        events_deinit(&record->events);
        record->events.file_fd = fd_close(record->events.file_fd);
}
