/*
 * cofferdam.h - run untrusted work in sandboxes, from a program
 *
 * The whole interface of libcofferdam; cofferdam(3) introduces it. Functions return 0 (or what they say) or a
 * negative errno; then cofferdam_error() has one line of text and cofferdam_failure_code() the code of
 * cofferdam-events(7), both of the context. A context and what was made of it belong to one thread at a time;
 * threads that work at once have a context each, which is cheap.
 *
 * The library has no state outside its objects. It never prints, never exits, starts no thread, and leaves
 * signals, working directory, umask and environment of the process alone. What has to be done with these is
 * done by the program "cofferdam" of the same version, which is executed with clean ones and with no
 * descriptor but those handed over: nothing in the memory of the calling process comes near a sandbox.
 * All descriptors that are made are close-on-exec.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define COFFERDAM_API __attribute__((visibility("default")))

struct cofferdam;         /* a context: who starts runs, where they are kept, the last error */
struct cofferdam_spec;    /* a specification: cofferdam.yaml(5) */
struct cofferdam_command; /* a command line and its surroundings */
struct cofferdam_run;     /* a run that was started or opened */
struct cofferdam_exec;    /* a command that was started */

/** cofferdam_version() - of the library, "MAJOR.MINOR.PATCH". Static. */
COFFERDAM_API const char *cofferdam_version(void);

/* ---- context ---- */

/**
 * cofferdam_new() - a context that knows nothing but the user of this process
 * Nothing is read from the environment: set "home" (or "state-dir") and "cwd" (or the key workspace.source),
 * and the variables that specifications refer to, PATH among them, with "env".
 */
COFFERDAM_API int cofferdam_new(struct cofferdam **ret);

/**
 * cofferdam_new_from_environment() - a context as the command line makes it
 * The only function that reads the environment and the working directory of the process: all variables, of
 * these HOME, USER, XDG_STATE_HOME and XDG_CONFIG_HOME mean something by themselves.
 */
COFFERDAM_API int cofferdam_new_from_environment(struct cofferdam **ret);

/** cofferdam_free() - also NULL; frees neither specifications nor runs that were made with it */
COFFERDAM_API void cofferdam_free(struct cofferdam *c);

/**
 * cofferdam_set() - one value of the context
 * @name: "home", "cwd", "state-dir", "config-dir", "user", "shell": absolute paths and names;
 *        "env": NAME=VALUE, in place of a variable of that name; "program": path of the program cofferdam
 * Return: 0, -EINVAL, -ENOMEM.
 */
COFFERDAM_API int cofferdam_set(struct cofferdam *c, const char *name, const char *value);

/** cofferdam_error() - what the last function that failed has to say, one line; "" when none has. Borrowed.
 */
COFFERDAM_API const char *cofferdam_error(const struct cofferdam *c);
/** cofferdam_failure_code() - its code of cofferdam-events(7), such as "SPEC_INVALID"; "": none. Borrowed. */
COFFERDAM_API const char *cofferdam_failure_code(const struct cofferdam *c);

/* ---- specification ---- */

/** cofferdam_spec_new() - nothing said: the built-in values, config.yaml and the variables of the context */
COFFERDAM_API int cofferdam_spec_new(struct cofferdam *c, struct cofferdam_spec **ret);
/** cofferdam_spec_free() - also NULL */
COFFERDAM_API void cofferdam_spec_free(struct cofferdam_spec *spec);

/**
 * cofferdam_spec_text() - a document, over what was said before
 * @name: for messages; JSON when it ends in ".json", else YAML
 * Return: 0; on failure (-EINVAL and others of cofferdam_error()) nothing of it counts.
 */
COFFERDAM_API int cofferdam_spec_text(struct cofferdam_spec *spec, const char *name, const char *text);
/** cofferdam_spec_file() - the same from a file */
COFFERDAM_API int cofferdam_spec_file(struct cofferdam_spec *spec, const char *path);

/**
 * cofferdam_spec_set() - one key, over all documents
 * @key:   "network.mode", or the option of cofferdam-run(1) without its dashes, "network"
 * @value: as on the command line; lists get one more item
 */
COFFERDAM_API int cofferdam_spec_set(struct cofferdam_spec *spec, const char *key, const char *value);

/**
 * cofferdam_spec_json() - the resolved specification, each value with who said it; validates
 * @ret: the caller frees it with free(3)
 */
COFFERDAM_API int cofferdam_spec_json(const struct cofferdam_spec *spec, char **ret);

/* ---- commands ---- */

/** cofferdam_command_new() - @argv: NULL-terminated, copied. Streams are /dev/null until they are set. */
COFFERDAM_API int cofferdam_command_new(struct cofferdam *c, const char *const *argv,
                                        struct cofferdam_command **ret);
/** cofferdam_command_free() - also NULL; a command may be started any number of times before */
COFFERDAM_API void cofferdam_command_free(struct cofferdam_command *command);

/** cofferdam_command_env() - @variable: NAME=VALUE, added to the run's; for exec only */
COFFERDAM_API int cofferdam_command_env(struct cofferdam_command *command, const char *variable);
/** cofferdam_command_cwd() - @path: absolute, inside; not said: the workspace; for exec only */
COFFERDAM_API int cofferdam_command_cwd(struct cofferdam_command *command, const char *path);
/** cofferdam_command_stdio() - @fd is stream @stream (0, 1, 2) of the command; borrowed until it is started.
 * -1: closed in the command. Files are read and written by a process of the library's, see cofferdam(3). */
COFFERDAM_API int cofferdam_command_stdio(struct cofferdam_command *command, int stream, int fd);
/** cofferdam_command_tty() - all three are a new terminal: cofferdam_exec_pty() */
COFFERDAM_API int cofferdam_command_tty(struct cofferdam_command *command, unsigned int rows,
                                        unsigned int cols);
/** cofferdam_command_detach() - nobody waits; what it says goes to the logs of the run; for exec only */
COFFERDAM_API int cofferdam_command_detach(struct cofferdam_command *command);

/* ---- runs ---- */

/**
 * cofferdam_start() - build a sandbox that lives on, and wait until commands can run in it
 * @stderr_fd: where the specification's post_create says what it says, -1: nowhere
 * @ret: frees with cofferdam_run_close(), which does not end the run
 */
COFFERDAM_API int cofferdam_start(struct cofferdam *c, const struct cofferdam_spec *spec, int stderr_fd,
                                  struct cofferdam_run **ret);

/** cofferdam_open() - @name: id, unique prefix of one, or name of a run. Return: 0, -ENOENT, -EEXIST (not
 * unique). */
COFFERDAM_API int cofferdam_open(struct cofferdam *c, const char *name, struct cofferdam_run **ret);
/** cofferdam_run_close() - forget the object, not the run; also NULL */
COFFERDAM_API void cofferdam_run_close(struct cofferdam_run *run);
/** cofferdam_run_id() - borrowed */
COFFERDAM_API const char *cofferdam_run_id(const struct cofferdam_run *run);

/** cofferdam_stop() - SIGTERM to the commands, SIGKILL after @grace_s seconds; returns when all is gone. Also
 * when it had ended. */
COFFERDAM_API int cofferdam_stop(struct cofferdam_run *run, unsigned int grace_s);
/** cofferdam_remove() - a run that has ended. @force: stop it, drop what it holds. Return: 0, -EBUSY. */
COFFERDAM_API int cofferdam_remove(struct cofferdam_run *run, int force);
/** cofferdam_inspect() - all that is known of it, as cofferdam-inspect(1) prints it; free(3) */
COFFERDAM_API int cofferdam_inspect(struct cofferdam_run *run, char **ret);

/** struct cofferdam_info - a line of the list; strings are borrowed during the callback */
struct cofferdam_info {
        size_t size; /* of this structure, in the library: later versions add members at the end */
        const char *id, *name, *status, *driver, *workspace;
        int64_t created_ns;
        int exit_code; /* -1: it has not ended */
        uint32_t held; /* changes that wait for review */
};

/** cofferdam_info_fn - Return: 0 to go on, anything else to stop, which the caller gets */
typedef int (*cofferdam_info_fn)(const struct cofferdam_info *info, void *arg);
/** cofferdam_list() - the runs of this user, the youngest first. @all: also those that have ended */
COFFERDAM_API int cofferdam_list(struct cofferdam *c, int all, cofferdam_info_fn fn, void *arg);
/** cofferdam_gc() - clear up after runs that died; changes they hold are kept. Return: how many, or -errno.
 */
COFFERDAM_API int cofferdam_gc(struct cofferdam *c);
/** cofferdam_doctor() - what this host can do, as cofferdam-doctor(1) prints JSON; free(3). Return: 0, 1 (a
 * required thing is missing), -errno. */
COFFERDAM_API int cofferdam_doctor(struct cofferdam *c, char **ret);

/* ---- commands that run ---- */

/** struct cofferdam_result - how a command ended */
struct cofferdam_result {
        size_t size;    /* set by the caller to sizeof: what lies behind it is left alone */
        int exit_code;  /* as a shell has it: 128 + signal, 126 and 127, 124 (timeout of the run), 125 */
        int signal;     /* that killed it, 0: none */
        int oom;        /* it ran out of memory */
        int exec_errno; /* why it could not be executed; negative: its working directory */
        uint32_t held;  /* of cofferdam_run_command(): changes that the run keeps for review */
        char failure_code[32]; /* "": the command ended by itself */
        char text[256];        /* with a failure code: what happened */
};

/** cofferdam_exec() - start @command in @run. @ret: cofferdam_exec_free() kills it when it still runs */
COFFERDAM_API int cofferdam_exec(struct cofferdam_run *run, const struct cofferdam_command *command,
                                 struct cofferdam_exec **ret);

/** cofferdam_run_command() - start a run that ends with @command; returns before it is built, and every
 * failure is in the result */
COFFERDAM_API int cofferdam_run_command(struct cofferdam *c, const struct cofferdam_spec *spec,
                                        const struct cofferdam_command *command, struct cofferdam_exec **ret);

/** cofferdam_exec_started() - wait until it runs. @timeout_ms: -1: without limit. Return: 0, -ETIMEDOUT,
 * -ESRCH (it ended before: the result says why) */
COFFERDAM_API int cofferdam_exec_started(struct cofferdam_exec *exec, int timeout_ms);
/** cofferdam_exec_wait() - until it has ended. Return: 0, -ETIMEDOUT (wait again), -errno. */
COFFERDAM_API int cofferdam_exec_wait(struct cofferdam_exec *exec, int timeout_ms,
                                      struct cofferdam_result *ret);
/** cofferdam_exec_fd() - readable when cofferdam_exec_wait() has something to do, maybe not the end; borrowed
 */
COFFERDAM_API int cofferdam_exec_fd(const struct cofferdam_exec *exec);
/** cofferdam_exec_pty() - once it is started: master of its terminal, borrowed; -1: it has none */
COFFERDAM_API int cofferdam_exec_pty(const struct cofferdam_exec *exec);
/** cofferdam_exec_number() - as in events and logs; 0: not started */
COFFERDAM_API uint32_t cofferdam_exec_number(const struct cofferdam_exec *exec);
/** cofferdam_exec_run_id() - of its run, once it is started; borrowed */
COFFERDAM_API const char *cofferdam_exec_run_id(const struct cofferdam_exec *exec);
/** cofferdam_exec_signal() - to the command, or its process @group; SIGKILL always reaches all of the group
 */
COFFERDAM_API int cofferdam_exec_signal(struct cofferdam_exec *exec, int signal, int group);
/** cofferdam_exec_free() - also NULL; a command that runs is killed, and a run that ends with it too */
COFFERDAM_API void cofferdam_exec_free(struct cofferdam_exec *exec);

/**
 * cofferdam_verb() - a verb of the command line: all that cofferdam(1) can do
 * @command: its words, {"logs", "-f", "name"}, and streams; the exit code is in the result
 */
COFFERDAM_API int cofferdam_verb(struct cofferdam *c, const struct cofferdam_command *command,
                                 struct cofferdam_exec **ret);

/* ---- events ---- */

/** struct cofferdam_event - one line of cofferdam-events(7), borrowed during the callback */
struct cofferdam_event {
        size_t size; /* see struct cofferdam_info */
        uint64_t seq;
        const char *type, *json; /* @json: the whole line */
};

/** cofferdam_event_fn - Return: 0 to go on, anything else to stop, which the caller gets */
typedef int (*cofferdam_event_fn)(const struct cofferdam_event *event, void *arg);

/**
 * cofferdam_events() - what happened in a run
 * @since:  number of the last event that is not wanted, 0: all
 * @follow: go on until the run has ended, blocks; otherwise what is there
 * @types:  NULL-terminated; NULL: all
 */
COFFERDAM_API int cofferdam_events(struct cofferdam_run *run, uint64_t since, int follow,
                                   const char *const *types, cofferdam_event_fn fn, void *arg);

/* ---- what a run has changed ---- */

/** struct cofferdam_change - borrowed during the callback */
struct cofferdam_change {
        size_t size;             /* see struct cofferdam_info */
        char kind;               /* A added, M modified, D deleted, R renamed, T another type */
        const char *path, *from; /* as cofferdam-diff(1) has them; @from: R only, else NULL */
        int conflict;            /* the host has another version by now */
        const char *json;        /* all that diff and apply say of it */
};

/** cofferdam_change_fn - Return: 0 to go on, anything else to be told of no more; what is done is done */
typedef int (*cofferdam_change_fn)(const struct cofferdam_change *change, void *arg);

/* @paths of the following: NULL-terminated, as diff prints them, or globs; NULL: all. @fn may be NULL. */

/** cofferdam_diff() - what the run holds and the host does not have. Return: 0, 1 (something is in conflict)
 */
COFFERDAM_API int cofferdam_diff(struct cofferdam_run *run, const char *const *paths, cofferdam_change_fn fn,
                                 void *arg);
enum cofferdam_apply_flag {
        COFFERDAM_APPLY_FORCE = 1,    /* also over what the host changed meanwhile */
        COFFERDAM_APPLY_CONTINUE = 2, /* finish one that was cut off first */
        COFFERDAM_APPLY_ABORT = 4     /* undo one that was cut off */
};
/** cofferdam_apply() - land it on the host. Return: 0, 1 (something stays in the run). The run is gone when
 * nothing is left. */
COFFERDAM_API int cofferdam_apply(struct cofferdam_run *run, unsigned int flags, const char *const *paths,
                                  cofferdam_change_fn fn, void *arg);
/** cofferdam_discard() - throw it away; without @paths the run goes with it */
COFFERDAM_API int cofferdam_discard(struct cofferdam_run *run, const char *const *paths);

#ifdef __cplusplus
}
#endif
