/*
 * placement.h - where a tool may run: inside the sandbox, in the launcher, or nowhere
 *
 * This table is the boundary of the agent pair; only the launcher's reading of it counts (launch/gate.c).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* a name that nobody classified is refused: the zero value */
enum placement { PLACEMENT_REFUSED, PLACEMENT_SANDBOX, PLACEMENT_LAUNCHER, PLACEMENT_COUNT };

/* X(name, placement, reason). Sandbox: starts a process, touches files, or opens an address that the model
 * chose. Launcher: works on what the launcher keeps, and takes no path of the model. Refused: would need both
 * sides. */
#define PLACEMENT_ROWS(X)                                                                      \
        X(bash, SANDBOX, "starts processes")                                                   \
        X(diagnostic_shell, SANDBOX, "starts processes")                                       \
        X(repl, SANDBOX, "starts processes")                                                   \
        X(read_file, SANDBOX, "reads files")                                                   \
        X(write_file, SANDBOX, "writes files")                                                 \
        X(file_edit, SANDBOX, "writes files")                                                  \
        X(notebook_edit, SANDBOX, "writes files")                                              \
        X(glob, SANDBOX, "reads directories")                                                  \
        X(grep, SANDBOX, "reads files")                                                        \
        X(workspace_grep, SANDBOX, "reads files")                                              \
        X(skill, SANDBOX, "reads files")                                                       \
        X(read_image, SANDBOX, "reads files")                                                  \
        X(web_fetch, SANDBOX, "opens an address that the model chose")                         \
        X(remote_trigger, SANDBOX, "opens an address that the model chose")                    \
        X(send_user_message, SANDBOX, "says something in the run's own stream")                \
        X(sleep, SANDBOX, "waits")                                                             \
        X(structured_output, SANDBOX, "is the runner's own result")                            \
        X(agent, SANDBOX, "is the runner's own metadata")                                      \
        X(ask_user, LAUNCHER, "asks the operator")                                             \
        X(ask_user_async, LAUNCHER, "asks the operator")                                       \
        X(await_answers, LAUNCHER, "asks the operator")                                        \
        X(list_mcp_resources, LAUNCHER, "asks the operator's servers")                         \
        X(read_mcp_resource, LAUNCHER, "asks the operator's servers")                          \
        X(mcp_auth, LAUNCHER, "asks the operator's servers")                                   \
        X(task_create, LAUNCHER, "works on the launcher's tasks")                              \
        X(task_get, LAUNCHER, "works on the launcher's tasks")                                 \
        X(task_list, LAUNCHER, "works on the launcher's tasks")                                \
        X(task_output, LAUNCHER, "works on the launcher's tasks")                              \
        X(task_stop, LAUNCHER, "works on the launcher's tasks")                                \
        X(task_update, LAUNCHER, "works on the launcher's tasks")                              \
        X(run_task_packet, LAUNCHER, "works on the launcher's tasks")                          \
        X(team_create, LAUNCHER, "works on the launcher's teams")                              \
        X(team_get, LAUNCHER, "works on the launcher's teams")                                 \
        X(team_list, LAUNCHER, "works on the launcher's teams")                                \
        X(team_delete, LAUNCHER, "works on the launcher's teams")                              \
        X(cron_create, LAUNCHER, "works on the launcher's timetable")                          \
        X(cron_get, LAUNCHER, "works on the launcher's timetable")                             \
        X(cron_list, LAUNCHER, "works on the launcher's timetable")                            \
        X(cron_delete, LAUNCHER, "works on the launcher's timetable")                          \
        X(todo_write, LAUNCHER, "works on the launcher's list")                                \
        X(enter_plan_mode, LAUNCHER, "changes what the launcher allows")                       \
        X(exit_plan_mode, LAUNCHER, "changes what the launcher allows")                        \
        X(privacy_filter, LAUNCHER, "works on the launcher's table of names")                  \
        X(privacy_unfilter, LAUNCHER, "works on the launcher's table of names")                \
        X(config, LAUNCHER, "reads the launcher's settings")                                   \
        X(tool_search, LAUNCHER, "searches the launcher's list of tools")                      \
        X(web_search, LAUNCHER, "asks the operator's search service")                          \
        X(lsp, REFUSED, "needs the launcher's servers and the sandbox's files")                \
        X(screenshot, REFUSED, "needs the host's display")                                     \
        X(computer_use, REFUSED, "needs the host's display")                                   \
        X(worker_create, REFUSED, "needs children of the launcher in the sandbox")             \
        X(worker_get, REFUSED, "needs children of the launcher in the sandbox")                \
        X(worker_observe, REFUSED, "needs children of the launcher in the sandbox")            \
        X(worker_observe_completion, REFUSED, "needs children of the launcher in the sandbox") \
        X(worker_resolve_trust, REFUSED, "needs children of the launcher in the sandbox")      \
        X(worker_await_ready, REFUSED, "needs children of the launcher in the sandbox")        \
        X(worker_send_prompt, REFUSED, "needs children of the launcher in the sandbox")        \
        X(worker_restart, REFUSED, "needs children of the launcher in the sandbox")            \
        X(worker_terminate, REFUSED, "needs children of the launcher in the sandbox")

/* the name of a row and its placement, as a constant: see below */
#define PLACEMENT_ENUM(name, placement, reason) PLACED_##placement##_##name,
enum placement_row { PLACEMENT_ROWS(PLACEMENT_ENUM) PLACEMENT_ROW_COUNT };
#undef PLACEMENT_ENUM

/** SANDBOX_TOOL(), LAUNCHER_TOOL() - the name of a tool in a list that is advertised. One without a row
 * above, or placed elsewhere, does not compile. */
#define SANDBOX_TOOL(name)  (&(#name)[0 * PLACED_SANDBOX_##name])
#define LAUNCHER_TOOL(name) (&(#name)[0 * PLACED_LAUNCHER_##name])

/** placement_name() - "refused", "sandbox", "launcher" */
const char *placement_name(enum placement placement);

/**
 * placement_of() - where the tool of exactly this name may run; the name is not trimmed, folded or corrected
 * @ret_reason: why, static; NULL allowed
 */
enum placement placement_of(const char *name, const char **ret_reason);

/**
 * placement_is_mcp() - whether @name is of the MCP family: mcp.SERVER.TOOL, mcp_SERVER_TOOL or
 * mcp__SERVER__TOOL
 */
bool placement_is_mcp(const char *name);

/** placement_has_row() - whether exactly this name stands in the table, wherever it is placed */
bool placement_has_row(const char *name);

/** placement_listed() - the name of a row */
const char *placement_listed(enum placement_row row);
