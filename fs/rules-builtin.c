/*
 * The built-in rules of a workspace: files that a tool on the host runs or trusts without being asked, when
 * somebody merely opens, enters, pulls or commits the directory. Builds and tests that a person starts are
 * not meant: they run the project's code knowingly. guard(7) explains the list; a test compares the two.
 */
#include "fs/rules.h"

#include <string.h>

#include "runtime/base/cleanup.h"

#define HOLD(pattern) \
        { .path = (pattern), .action = GUARD_HOLD, .builtin = true }
#define HOLD_TYPES(pattern, kinds) \
        { .path = (pattern), .action = GUARD_HOLD, .builtin = true, .types = (kinds) }
#define ALLOW_FILE(pattern) \
        { .path = (pattern), .action = GUARD_ALLOW, .builtin = true, .types = RULE_FILE }

/* the names git gives hooks (githooks(5)), and the sample fsmonitor's */
#define HOOK_NAMES                                                                                \
        "{applypatch-msg,pre-applypatch,post-applypatch,pre-commit,pre-merge-commit,"             \
        "prepare-commit-msg,commit-msg,post-commit,pre-rebase,post-checkout,post-merge,pre-push," \
        "pre-receive,update,proc-receive,post-receive,post-update,reference-transaction,"         \
        "push-to-checkout,pre-auto-gc,post-rewrite,sendemail-validate,fsmonitor-watchman,"        \
        "p4-changelist,p4-prepare-changelist,p4-post-changelist,p4-pre-submit,post-index-change}"

static const struct rule_def builtin[] = {
        /* -- a git directory, its submodules' and its linked worktrees' -- */

        /* ".git" as a file or link sends git to a directory of the writer's choice; judged by content
         * (gitrepository-layout(5), gitfile) */
        HOLD_TYPES("**/.git", RULE_FILE | RULE_LINK),
        /* a link inside a git directory stands in for hooks/, config, objects/ (CVE-2022-39253), ... */
        HOLD_TYPES("**/*.git/**", RULE_LINK),
        /* git init makes and removes such a link to learn whether the file system has links */
        { .path = "**/*.git/**/t??????", .action = GUARD_ALLOW, .builtin = true, .types = RULE_LINK },
        /* executed by most git commands (githooks(5)) */
        HOLD("**/.git/hooks/**"),
        /* core.fsmonitor, core.pager, alias.*, filter.*, ... are commands (git-config(1)); judged */
        HOLD("**/.git/config"),
        HOLD("**/.git/config.worktree"),
        /* chooses filters and diff drivers, and no commit shows it (gitattributes(5)) */
        HOLD("**/.git/info/attributes"),
        HOLD("**/.git/modules/**/{config,config.worktree,info/attributes,hooks/**}"),
        /* says where config, hooks and objects are, in any git directory, not only a worktree's
         * (gitrepository-layout(5)); judged */
        HOLD_TYPES("**/commondir", RULE_FILE | RULE_LINK),
        /* where "git worktree remove, move, repair" act; judged */
        HOLD("**/.git/worktrees/*/gitdir"),
        HOLD("**/.git/modules/**/worktrees/*/gitdir"),
        /* other repositories' objects, served as if they were this one's (CVE-2022-39253) */
        HOLD("**/objects/info/{alternates,http-alternates}"),
        /* a rebase in progress: "exec" lines are run by --continue (git-rebase(1)); judged */
        HOLD("**/*.git/**/rebase-merge/git-rebase-todo"),
        /* names a program git-merge-NAME, also a relative path (git-rebase(1) --strategy) */
        HOLD("**/*.git/**/rebase-merge/strategy"),
        /* read by the shell in versions of git before 2.34 (rebase --preserve-merges, am); judged */
        HOLD("**/*.git/**/{rebase-merge,rebase-apply}/author-script"),
        /* the same for cherry-pick and revert in progress, in git's config format; judged */
        HOLD("**/*.git/**/sequencer/opts"),
        /* URLs of remotes in the format before config (gitremotes(7)) */
        HOLD("**/*.git/{remotes,branches}/**"),
        HOLD("**/.git/modules/*/{remotes,branches}/**"),

        /* -- git directories of other names: git takes any directory with HEAD, objects and refs for one
         *    (gitrepository-layout(5); safe.bareRepository in git-config(1)) -- */

        HOLD("**/*.git/hooks/**"),
        HOLD_TYPES("**/hooks/" HOOK_NAMES, RULE_FILE | RULE_LINK),
        /* where core.hooksPath points when a project keeps its hooks beside its files */
        HOLD_TYPES("**/{.githooks,.git-hooks,githooks,git-hooks}/" HOOK_NAMES, RULE_FILE | RULE_LINK),
        /* only what git could read as its own and is not known to be harmless stays held; judged */
        HOLD_TYPES("**/{config,config.worktree}", RULE_FILE | RULE_LINK),

        /* what git itself writes at init and never runs */
        ALLOW_FILE("**/.git/hooks/*.sample"),
        ALLOW_FILE("**/.git/modules/**/hooks/*.sample"),
        ALLOW_FILE("**/*.git/hooks/*.sample"),

        /* submodule paths, URLs and update commands (gitmodules(5); CVE-2018-17456); judged */
        HOLD("**/.gitmodules"),

        /* -- other version control -- */

        /* hooks and extensions run by every command (hgrc(5)); where the store is */
        HOLD("**/.hg/{hgrc,hgrc-not-shared,sharedpath}"),
        /* fix tools, editors and aliases (jj config) */
        HOLD("**/.jj/repo/{config.toml,repo,store/git_target}"),

        /* -- shells and editors that read the directory they are in -- */

        /* run on entering the directory, once the person allowed the directory (direnv(1)) */
        HOLD("**/.envrc"),
        /* tasks on opening the folder, paths of tools (VS Code guide, Tasks) */
        HOLD("**/.vscode/**"),
        HOLD("**/*.code-workspace"),
        /* run configurations, file watchers */
        HOLD("**/.idea/**"),
        HOLD("**/.fleet/**"),
        /* language servers' paths, tasks */
        HOLD("**/.zed/**"),
        HOLD("**/.helix/**"),
        /* commands on the host when the container is built (initializeCommand) */
        HOLD("**/.devcontainer/**"),
        HOLD("**/.devcontainer.json"),
        /* read with 'exrc' set; Emacs' local variables; gdb's auto-load */
        HOLD("**/{.exrc,.vimrc,.nvimrc,.nvim.lua,.dir-locals.el,.dir-locals-2.el,.gdbinit}"),

        /* -- a workspace that is a home directory, or is linked into one: read by the next login -- */

        HOLD("**/{.bashrc,.bash_profile,.bash_login,.bash_logout,.bash_aliases,.profile,.inputrc}"),
        HOLD("**/{.zshrc,.zshenv,.zprofile,.zlogin,.zlogout,.cshrc,.tcshrc,.login,.xprofile,.xsessionrc}"),
        HOLD("**/.config/{fish,autostart,systemd,environment.d,git}/**"),
        HOLD("**/{.gitconfig,.ssh/**,.gnupg/**,.pam_environment}"),

        /* -- coding agents: servers and hooks are commands on the host -- */

        HOLD("**/.mcp.json"),
        /* settings hold hooks and permissions (Claude Code guide, Settings) */
        HOLD("**/.claude/{settings.json,settings.local.json,hooks/**,agents/**,commands/**,skills/**}"),
        HOLD("**/.cursor/**"),
        HOLD("**/.codex/**"),
        HOLD("**/.gemini/**"),
        HOLD("**/.windsurf/**"),
        HOLD("**/{.opencode/**,opencode.json,opencode.jsonc}"),
        HOLD("**/{.amazonq,.continue,.kiro,.qwen,.roo}/**"),
        /* commands that run after each edit */
        HOLD("**/.aider.conf.yml"),
        HOLD("**/.github/hooks/**"),

        /* -- continuous integration: runs with the project's secrets as soon as it is pushed -- */

        HOLD("**/.gitlab-ci.yml"),
        HOLD("**/.github/workflows/**"),
        HOLD("**/{.gitea,.forgejo}/workflows/**"),
        HOLD("**/.circleci/**"),

        /* -- package managers and hook managers -- */

        /* installs git hooks at the next install or update */
        HOLD("**/.pre-commit-config.yaml"),
        HOLD("**/.husky/**"),
        /* commands that hooks installed earlier run at the next commit */
        HOLD("**/{lefthook,.lefthook,lefthook-local,.lefthook-local}.{yml,yaml,toml,json}"),
        /* registries, credentials, script-shell, yarnPath (a program) */
        HOLD("**/.npmrc"),
        HOLD("**/.yarnrc*"),
        /* runner, rustc-wrapper, aliases (Cargo book, Configuration) */
        HOLD("**/.cargo/{config.toml,config}"),

        /* our own: a run must not write the next one's specification */
        HOLD("**/.cofferdam.yaml"),
        /* files that are about to land, after review (fs/journal.h) or judged (fs/layer.h): another run must
         * not write to them */
        { .path = "**/.cofferdam-{apply,tmp}-*", .action = GUARD_HIDE, .builtin = true },
};

/* the headings of guard(7), each with the first rule under it */
static const struct {
        const char *first, *name;
} groups[] = {
        { "**/.git", "Git directories" },
        { "**/*.git/hooks/**", "Git directories of other names" },
        { "**/.hg/{hgrc,hgrc-not-shared,sharedpath}", "Other version control" },
        { "**/.envrc", "Shells, editors and debuggers" },
        { "**/{.bashrc,.bash_profile,.bash_login,.bash_logout,.bash_aliases,.profile,.inputrc}",
          "Home directories" },
        { "**/.mcp.json", "Coding agents" },
        { "**/.gitlab-ci.yml", "Continuous integration" },
        { "**/.pre-commit-config.yaml", "Package and hook managers" },
        { "**/.cofferdam.yaml", "Cofferdam" },
};

const char *rules_builtin_group(const char *path) {
        size_t group = 0;

        for (size_t i = 0; i < ARRAY_SIZE(builtin); i++) {
                if (group < ARRAY_SIZE(groups) && strcmp(builtin[i].path, groups[group].first) == 0)
                        group++;
                if (strcmp(builtin[i].path, path) == 0)
                        return groups[group - 1].name;
        }
        return NULL;
}

const struct rule_def *rules_builtin(size_t *ret_n) {
        *ret_n = ARRAY_SIZE(builtin);
        return builtin;
}
