#include <stdio.h>
#include <string.h>

#include "kubernetes/life/life.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"

static const char *text_of(const json_t *object, const char *key) {
        const char *text = json_string_value(json_object_get(object, key));

        return text ? text : "";
}

static void say(struct life_verdict *v, enum life_state state, const char *code, const char *reason,
                const char *message) {
        v->state = state;
        v->code = code;
        (void) snprintf(v->text, sizeof(v->text), "%s%s%s", ESC(reason), *message ? ": " : "",
                        escape_str(message, (char[LIFE_TEXT_MAX]){ 0 }, LIFE_TEXT_MAX));
}

/* What a container that waits will wait for in vain. */
static const struct {
        const char *reason, *code;
} broken[] = {
        { "ErrImagePull", "IMAGE_UNAVAILABLE" },
        { "ImagePullBackOff", "IMAGE_UNAVAILABLE" },
        { "ErrImageNeverPull", "IMAGE_UNAVAILABLE" },
        { "InvalidImageName", "IMAGE_UNAVAILABLE" },
        { "ImageInspectError", "IMAGE_UNAVAILABLE" },
        { "RegistryUnavailable", "IMAGE_UNAVAILABLE" },
        { "SignatureValidationFailed", "IMAGE_UNAVAILABLE" },
        { "CreateContainerConfigError", "SANDBOX_SETUP_FAILED" },
        { "CreateContainerError", "SANDBOX_SETUP_FAILED" },
        { "RunContainerError", "SANDBOX_SETUP_FAILED" },
        { "CrashLoopBackOff", "SANDBOX_SETUP_FAILED" },
        { "PostStartHookError", "SANDBOX_SETUP_FAILED" },
        { "PreCreateHookError", "SANDBOX_SETUP_FAILED" },
};

static bool look_at_waiting(const json_t *waiting, struct life_verdict *v) {
        const char *reason = text_of(waiting, "reason");

        for (size_t i = 0; i < ARRAY_SIZE(broken); i++) {
                if (strcmp(reason, broken[i].reason) != 0)
                        continue;
                say(v, LIFE_BROKEN, broken[i].code, reason, text_of(waiting, "message"));
                return true;
        }
        if (*reason)
                say(v, LIFE_WAITING, NULL, reason, text_of(waiting, "message"));
        return false;
}

static bool look_at_terminated(const json_t *ended, struct life_verdict *v) {
        const char *reason = text_of(ended, "reason");
        const bool oom = strcmp(reason, "OOMKilled") == 0;
        char text[64];

        (void) snprintf(text, sizeof(text), "exit code %d",
                        (int) json_integer_value(json_object_get(ended, "exitCode")));
        say(v, LIFE_ENDED, oom ? "OUT_OF_MEMORY" : "SANDBOX_SETUP_FAILED", *reason ? reason : "Terminated",
            *text_of(ended, "message") ? text_of(ended, "message") : text);
        return true;
}

/* Return: whether @v is final */
static bool look_at_containers(const json_t *list, bool init, struct life_verdict *v, size_t *running) {
        size_t i;
        const json_t *row;

        json_array_foreach(list, i, row) {
                const json_t *state = json_object_get(row, "state");
                const json_t *ended = json_object_get(state, "terminated");

                if (json_object_get(state, "waiting") &&
                    look_at_waiting(json_object_get(state, "waiting"), v))
                        return true;
                if (ended && (!init || json_integer_value(json_object_get(ended, "exitCode")) != 0))
                        return look_at_terminated(ended, v);
                *running += json_object_get(state, "running") != NULL;
        }
        return false;
}

static const json_t *condition(const json_t *status, const char *type) {
        const json_t *list = json_object_get(status, "conditions");
        size_t i;
        const json_t *row;

        json_array_foreach(list, i, row) if (strcmp(text_of(row, "type"), type) == 0) return row;
        return NULL;
}

/* What the cluster says of a pod for which it had no room any more. */
static bool is_capacity(const char *reason) {
        static const char *const all[] = { "Evicted", "Preempting", "Shutdown", "NodeShutdown",
                                           "Terminated" };

        for (size_t i = 0; i < ARRAY_SIZE(all); i++)
                if (strcmp(reason, all[i]) == 0)
                        return true;
        return strncmp(reason, "OutOf", 5) == 0; /* OutOfcpu, OutOfmemory, OutOfpods: the node was full */
}

/* Of a pod that is over, or being deleted: it had to make room (Kubernetes 1.26 and later say so). One that
 * goes on may have the condition for a while and stay. Return: whether @v is final */
static bool look_at_disruption(const json_t *status, struct life_verdict *v) {
        const json_t *row = condition(status, "DisruptionTarget");
        const char *reason = text_of(status, "reason");

        if (is_capacity(reason))
                say(v, LIFE_ENDED, "SANDBOX_CAPACITY", reason, text_of(status, "message"));
        else if (!*reason && row && strcmp(text_of(row, "status"), "True") == 0)
                say(v, LIFE_ENDED, "SANDBOX_CAPACITY",
                    *text_of(row, "reason") ? text_of(row, "reason") : "DisruptionTarget",
                    text_of(row, "message"));
        else
                return false;
        return true;
}

/* The pod is over: the reason of the pod, which knows of deadlines and evictions, before its container's. */
static void look_at_end(const json_t *status, const char *phase, struct life_verdict *v) {
        const char *reason = text_of(status, "reason");
        size_t running = 0;

        if (look_at_disruption(status, v))
                return;
        if (strcmp(reason, "DeadlineExceeded") == 0)
                say(v, LIFE_ENDED, "RUN_TIMEOUT", reason, text_of(status, "message"));
        else if (*reason)
                say(v, LIFE_ENDED, "SANDBOX_SETUP_FAILED", reason, text_of(status, "message"));
        else if (!look_at_containers(json_object_get(status, "containerStatuses"), false, v, &running) ||
                 v->state != LIFE_ENDED)
                say(v, LIFE_ENDED, "SANDBOX_SETUP_FAILED", phase, "");
}

void life_look(const json_t *pod, struct life_verdict *v) {
        const json_t *status = json_object_get(pod, "status");
        const char *phase = text_of(status, "phase");
        const json_t *scheduled = condition(status, "PodScheduled");
        const json_t *containers = json_object_get(status, "containerStatuses");
        size_t running = 0, init = 0;

        *v = (struct life_verdict){ .state = LIFE_WAITING };
        if (strcmp(phase, "Failed") == 0 || strcmp(phase, "Succeeded") == 0) {
                look_at_end(status, phase, v);
                return;
        }
        if (json_object_get(json_object_get(pod, "metadata"), "deletionTimestamp")) {
                if (!look_at_disruption(status, v))
                        say(v, LIFE_ENDED, "SANDBOX_SETUP_FAILED", "Deleted", "somebody deletes the pod");
                return;
        }
        if (look_at_containers(json_object_get(status, "initContainerStatuses"), true, v, &init) ||
            look_at_containers(containers, false, v, &running))
                return;
        if (strcmp(phase, "Running") == 0 && running > 0 && running == json_array_size(containers))
                v->state = LIFE_RUNNING;
        else if (scheduled && strcmp(text_of(scheduled, "status"), "True") != 0)
                say(v, LIFE_WAITING, NULL, text_of(scheduled, "reason"), text_of(scheduled, "message"));
}

void life_look_gone(const json_t *pod, struct life_verdict *v) {
        const json_t *status = json_object_get(pod, "status");

        if (!look_at_disruption(status, v))
                say(v, LIFE_ENDED, "SANDBOX_SETUP_FAILED", "Deleted", "somebody deleted the pod");
}

void life_capacity(const json_t *pod, struct life_verdict *v) {
        const json_t *scheduled = condition(json_object_get(pod, "status"), "PodScheduled");

        v->state = LIFE_BROKEN;
        v->code = scheduled && strcmp(text_of(scheduled, "status"), "True") == 0 ? "SANDBOX_SETUP_TIMEOUT"
                                                                                 : "SANDBOX_CAPACITY";
        if (!v->text[0])
                (void) snprintf(v->text, sizeof(v->text), "%s",
                                scheduled ? "it was not started" : "no node took it");
}
