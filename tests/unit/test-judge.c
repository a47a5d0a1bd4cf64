#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "fs/judge.h"
#include "fs/rules.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"

#define ROOT "/w"

/* Fails unless the content lands (@says NULL) or is held with @says in the reason. */
static void expect(const char *path, const char *content, const char *says) {
        AUTO_BUF struct buf reason = { 0 };
        const bool lands = judge_content(ROOT, path, content, strlen(content), &reason);

        if (lands != !says || (says && !strstr(buf_cstr(&reason), says)) || (lands && reason.len > 0))
                fail_msg("%s: '%s' %s: '%s'", path, content, lands ? "lands" : "is held", buf_cstr(&reason));
        assert_true(reason.len <= JUDGE_REASON_MAX);
        assert_int_equal(judge_content(ROOT, path, content, strlen(content), NULL), lands);
}

static void judge_applies_to_known_files(void **state) {
        static const struct {
                const char *path;
                bool want;
        } cases[] = {
                { ".git/config", true },
                { "a/b/.git/config", true },
                { ".GIT/Config", true },
                { ".git/config.worktree", true },
                { ".git/worktrees/w/config.worktree", true },
                { ".git/modules/a/b/config", true },
                { ".git/refs/heads/config", true },
                { ".git/modules/a/refs/heads/hooks/update", true },
                { ".git", true },
                { "sub/.git", true },
                { ".gitmodules", true },
                { ".git/worktrees/w/commondir", true },
                { ".git/worktrees/w/gitdir", true },
                { ".git/rebase-merge/git-rebase-todo", true },
                { ".git/rebase-merge/author-script", true },
                { ".git/modules/m/rebase-apply/author-script", true },
                { "rebase-apply/author-script", false },
                { ".git/sequencer/opts", true },
                { "config", true },
                { "x/y/config", true },
                { "bare.git/config", true },
                { ".git/hooks/pre-commit", false },
                { ".git/hooks/config", false },
                { ".git/remotes/config", false },
                { ".git/branches/config", false },
                { ".git/commondir", false },
                { ".git/modules/a/commondir", false },
                { "x/commondir", false },
                { ".git/info/attributes", false },
                { ".git/objects/info/alternates", false },
                { ".git/rebase-merge/strategy", false },
                { "hooks/pre-commit", false },
                { ".cargo/config", false },
                { ".vscode/config", false },
                { "a/.circleci/config", false },
                { ".envrc", false },
                { ".mcp.json", false },
                { "", false },
                { "/config", false },
                { "a//config", false },
                { "worktrees/w/gitdir", false },
                { "rebase-merge/git-rebase-todo", false },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                if (judge_applies(cases[i].path) != cases[i].want)
                        fail_msg("'%s'", cases[i].path);
        }
}

/* What is judged is held by a built-in rule, and by one that is about git. */
static void judge_applies_only_to_held_files(void **state) {
        static const char *const paths[] = {
                ".git/config",
                ".git/worktrees/w/config.worktree",
                ".git/modules/a/b/config",
                ".git/refs/heads/config",
                ".git",
                ".gitmodules",
                ".git/worktrees/w/commondir",
                ".git/worktrees/w/gitdir",
                ".git/rebase-merge/git-rebase-todo",
                ".git/rebase-merge/author-script",
                ".git/worktrees/w/rebase-apply/author-script",
                ".git/sequencer/opts",
                "x/config",
                "bare.git/config",
                ".git/modules/a/refs/heads/hooks/update",
        };
        AUTO_RULES struct rules *rules = NULL;
        const struct rule_def *defs;
        size_t n;

        (void) state;
        defs = rules_builtin(&n);
        assert_int_equal(rules_new(defs, n, false, &rules, NULL), 0);
        for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
                assert_true(judge_applies(paths[i]));
                assert_int_equal(rules_path(rules, paths[i], S_IFREG).action, GUARD_HOLD);
        }
}

/* One row per key that makes git run, fetch or trust something; each must be named in the reason. */
static void judge_content_holds_each_dangerous_key(void **state) {
        static const struct {
                const char *text, *key;
        } cases[] = {
                { "[core]\nhooksPath = x\n", "core.hookspath" },
                { "[core]\nfsmonitor = ./x\n", "core.fsmonitor" },
                { "[core]\nfsmonitor\n", "core.fsmonitor" },
                { "[CORE]\nFSMonitor = true\n", "core.fsmonitor" },
                { "[core]\nsshCommand = x\n", "core.sshcommand" },
                { "[core]\npager = x\n", "core.pager" },
                { "[pager]\nstatus = x\n", "pager.status" },
                { "[core]\neditor = x\n", "core.editor" },
                { "[sequence]\neditor = x\n", "sequence.editor" },
                { "[core]\naskPass = x\n", "core.askpass" },
                { "[core]\ngitProxy = x\n", "core.gitproxy" },
                { "[core]\nattributesFile = x\n", "core.attributesfile" },
                { "[core]\nexcludesFile = x\n", "core.excludesfile" },
                { "[core]\nworktree = ../x\n", "core.worktree" },
                { "[core]\nalternateRefsCommand = x\n", "core.alternaterefscommand" },
                { "[core]\nnotesRef = x\n", "core.notesref" },
                { "[attr]\ntree = HEAD\n", "attr.tree" },
                { "[diff]\nexternal = x\n", "diff.external" },
                { "[diff \"d\"]\ncommand = x\n", "diff.d.command" },
                { "[diff \"d\"]\ntextconv = x\n", "diff.d.textconv" },
                { "[difftool \"d\"]\ncmd = x\n", "difftool.d.cmd" },
                { "[mergetool \"d\"]\ncmd = x\n", "mergetool.d.cmd" },
                { "[filter \"f\"]\nclean = x\n", "filter.f.clean" },
                { "[filter \"f\"]\nsmudge = x\n", "filter.f.smudge" },
                { "[filter \"f\"]\nprocess = x\n", "filter.f.process" },
                { "[merge \"m\"]\ndriver = x\n", "merge.m.driver" },
                { "[gpg]\nprogram = x\n", "gpg.program" },
                { "[gpg \"ssh\"]\nprogram = x\n", "gpg.ssh.program" },
                { "[gpg \"ssh\"]\ndefaultKeyCommand = x\n", "gpg.ssh.defaultkeycommand" },
                { "[commit]\ngpgSign = true\n", "commit.gpgsign" },
                { "[credential]\nhelper = !x\n", "credential.helper" },
                { "[credential \"https://x\"]\nhelper = x\n", "credential.https://x.helper" },
                { "[alias]\nst = !x\n", "alias.st" },
                { "[include]\npath = x\n", "include.path" },
                { "[includeIf \"gitdir:/\"]\npath = x\n", "includeif.gitdir:/.path" },
                { "[url \"ext::sh -c x\"]\ninsteadOf = https://\n", "insteadof" },
                { "[url \"x\"]\npushInsteadOf = y\n", "pushinsteadof" },
                { "[protocol]\nallow = always\n", "protocol.allow" },
                { "[protocol \"ext\"]\nallow = always\n", "protocol.ext.allow" },
                { "[uploadpack]\npackObjectsHook = x\n", "uploadpack.packobjectshook" },
                { "[receive]\nprocReceiveRefs = x\n", "receive.procreceiverefs" },
                { "[ssh]\nvariant = x\n", "ssh.variant" },
                { "[http]\nproxy = x\n", "http.proxy" },
                { "[http]\nsslVerify = false\n", "http.sslverify" },
                { "[http]\nextraHeader = x\n", "http.extraheader" },
                { "[safe]\ndirectory = *\n", "safe.directory" },
                { "[init]\ntemplateDir = x\n", "init.templatedir" },
                { "[interactive]\ndiffFilter = x\n", "interactive.difffilter" },
                { "[web]\nbrowser = x\n", "web.browser" },
                { "[browser \"b\"]\ncmd = x\n", "browser.b.cmd" },
                { "[man \"m\"]\ncmd = x\n", "man.m.cmd" },
                { "[sendemail]\nsmtpServer = x\n", "sendemail.smtpserver" },
                { "[trailer \"t\"]\ncommand = x\n", "trailer.t.command" },
                { "[trailer \"t\"]\ncmd = x\n", "trailer.t.cmd" },
                { "[tar \"t\"]\ncommand = x\n", "tar.t.command" },
                { "[guitool \"t\"]\ncmd = x\n", "guitool.t.cmd" },
                { "[instaweb]\nhttpd = x\n", "instaweb.httpd" },
                { "[hook \"h\"]\ncommand = x\n", "hook.h.command" },
                { "[lfs]\nurl = x\n", "lfs.url" },
                { "[lfs \"customtransfer.x\"]\npath = x\n", "lfs.customtransfer.x.path" },
                { "[extensions]\npartialClone = origin\n", "extensions.partialclone" },
                { "[remote \"o\"]\nuploadpack = x\n", "remote.o.uploadpack" },
                { "[remote \"o\"]\nreceivepack = x\n", "remote.o.receivepack" },
                { "[remote \"o\"]\nvcs = x\n", "remote.o.vcs" },
                { "[remote \"o\"]\nproxy = x\n", "remote.o.proxy" },
                { "[remote \"o\"]\npromisor = true\n", "remote.o.promisor" },
                { "[remote]\npushDefault = x\n", "remote.pushdefault" },
                { "[remote \"o\"]\nurl = ext::sh -c x\n", "remote.o.url" },
                { "[remote \"o\"]\npushurl = ext::sh\n", "remote.o.pushurl" },
                { "[branch \"b\"]\nremote = ./evil\n", "branch.b.remote" },
                { "[branch \"b\"]\nremote = evil\n", "branch.b.remote" },
                { "[branch \"b\"]\nremote = https://x/y\n", "branch.b.remote" },
                { "[branch \"b\"]\npushRemote = x\n", "branch.b.pushremote" },
                { "[branch \"b\"]\nmergeOptions = -s x\n", "branch.b.mergeoptions" },
                { "[branch \"b\"]\nmerge = x\n", "branch.b.merge" },
                { "[submodule \"s\"]\nupdate = !x\n", "submodule.s.update" },
                { "[submodule \"s\"]\nurl = -x\n", "submodule.s.url" },
                { "[submodule \"../s\"]\nactive = true\n", "submodule.../s.active" },
                { "[submodule \"s\"]\nactive = true\n[submodule \"a/../../b\"]\nactive = true\n",
                  "a/../../b" },
                { "[submodule]\nalternateLocation = superproject\n", "submodule.alternatelocation" },
                { "[user]\nsigningKey = x\n", "user.signingkey" },
                { "[core.x]\nbare = true\n", "core.x.bare" },
                { "[user]\nname = a\\nb\n", "user.name" },
                { "[svn-remote \"x\"]\nurl = y\n", "svn-remote.x.url" },
                { "[unknown]\nkey = x\n", "unknown.key" },
        };
        static const char *const paths[] = { ".git/config",
                                             "n/.git/config",
                                             ".git/modules/m/config",
                                             ".git/config.worktree",
                                             ".git/worktrees/w/config.worktree",
                                             "bare.git/config",
                                             "any/config" };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                for (size_t p = 0; p < ARRAY_SIZE(paths); p++)
                        expect(paths[p], cases[i].text, cases[i].key);
        }
        expect(".git/config", "[core]\nbare = false\npager = x\n[alias]\na = b\n[core]\npager = y\n",
               "core.pager, alias.a");
}

static void judge_content_lands_safe_configs(void **state) {
        static const char *const texts[] = {
                "",
                "# nothing\n",
                "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = "
                "false\n\tlogallrefupdates = true\n"
                "\tignorecase = true\n\tprecomposeunicode = true\n\tsymlinks = false\n",
                "[core]\nrepositoryformatversion = 1\n[extensions]\nobjectformat = sha256\nworktreeConfig = "
                "true\n",
                "[core]\nsparseCheckout = true\nsparseCheckoutCone = true\n[index]\nsparse = false\n",
                "[remote \"origin\"]\n\turl = https://example.org/a/b.git\n\tfetch = "
                "+refs/heads/*:refs/remotes/origin/*\n"
                "[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n\tvscode-merge-base = "
                "origin/main\n"
                "\trebase = true\n",
                "[branch \"x\"]\nremote = o\n[remote \"o\"]\nurl = git@example.org:a/b.git\ntagOpt = "
                "--no-tags\n",
                "[branch \"x\"]\nremote = .\nmerge = refs/heads/y\n",
                "[remote \"o\"]\nurl = ssh://git@example.org:22/a\npushurl = "
                "https://u:p%20@example.org:443/a?b=c\n"
                "gh-resolved = base\n",
                "[user]\nname = J\xc3\xb6rg \"X\" Y\nemail = a@b\n",
                "[submodule]\nactive = .\n[submodule \"a/b\"]\nurl = https://example.org/x\nactive = "
                "true\nupdate = rebase\n",
                "[init]\ndefaultBranch = main\n",
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                expect(".git/config", texts[i], NULL);
                expect("a/.git/worktrees/w/config.worktree", texts[i], NULL);
                expect(".git/modules/a/config", texts[i], NULL);
        }
}

static void judge_content_knows_addresses(void **state) {
        static const struct {
                const char *url;
                bool lands;
        } cases[] = {
                { "https://example.org/a", true },
                { "https://example.org", true },
                { "https://u@example.org:8443/a/b.git", true },
                { "ssh://example.org/~u/a", true },
                { "ssh://git@example.org:2222/a", true },
                { "git@example.org:a/b.git", true },
                { "example.org:a", true },
                { "http://example.org/a", false },
                { "git://example.org/a", false },
                { "ftp://example.org/a", false },
                { "file:///a", false },
                { "/a/b", false },
                { "./a", false },
                { "../a", false },
                { "a", false },
                { "a/b:c", false },
                { "ext::sh -c x", false },
                { "ext::sh", false },
                { "https::https://x", false },
                { "https://", false },
                { "https:///a", false },
                { "ssh://-oProxyCommand=x/a", false },
                { "ssh://u@-oProxyCommand=x/a", false },
                { "-oProxyCommand=x:a", false },
                { "-Fevil@example.org:a", false },
                { "u@-o:a", false },
                { "@h:a", false },
                { "h:-a", false },
                { "h:", false },
                { "https://h:x/a", false },
                { "https://h:/a", false },
                { "https://h/%0a", false },
                { "https://h/%0D", false },
                { "https://h/%00", false },
                { "https://h/a b", false },
                { "https://h\\\\x/a", false },
                { "https://[::1]/a", false },
                { "HTTPS://h/a", false },
                { "--upload-pack=x", false },
                { "", false },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                char text[256];

                (void) snprintf(text, sizeof(text), "[remote \"o\"]\nurl = %s\n", cases[i].url);
                expect(".git/config", text, cases[i].lands ? NULL : "remote.o.url");
        }
}

static void judge_content_checks_a_submodules_place(void **state) {
        static const struct {
                const char *path, *value;
                bool lands;
        } cases[] = {
                { ".git/modules/lib/config", "../../../lib", true },
                { ".git/modules/a/b/config", "../../../../a/b", true },
                { "x/.git/modules/lib/config", "../../../deps/lib", true },
                { ".git/modules/a/modules/b/config", "../../../../../a/b", true },
                { ".git/modules/lib/config", "../../lib", false },
                { ".git/modules/lib/config", "../../../../lib", false },
                { ".git/modules/lib/config", "../../../", false },
                { ".git/modules/lib/config", "../../..", false },
                { ".git/modules/lib/config", "../../../.git/hooks", false },
                { ".git/modules/lib/config", "../../../a/.git", false },
                { ".git/modules/lib/config", "../../../a/../.git", false },
                { ".git/modules/lib/config", "../../../git~1", false },
                { ".git/modules/lib/config", "/w/lib", false },
                { ".git/modules/lib/config", "lib", false },
                { ".git/modules/lib/config", "\"../../../lib\\t\"", false },
                { ".git/config", "../lib", false },
                { "bare.git/config", "../lib", false },
                { "config", "lib", false },
                { ".git/worktrees/w/config.worktree", "../../../lib", false },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                char text[256];

                (void) snprintf(text, sizeof(text), "[core]\n\tworktree = %s\n", cases[i].value);
                expect(cases[i].path, text, cases[i].lands ? NULL : "core.worktree");
        }
        expect(".git/modules/l/config", "[core]\nworktree = ../../../l\nworktree = ../../../.git\n",
               "core.worktree");
        expect("x.git/modules/l/config", "[core]\nworktree = ../../../l\n", "not judged");
        expect(".git/modules/l/config", "# ../../../l\n[core]\nworktree = /etc\n", "core.worktree");
}

static void judge_content_reads_git_files(void **state) {
        static const struct {
                const char *path, *text;
                bool lands;
        } cases[] = {
                { "sub/.git", "gitdir: ../.git/modules/sub\n", true },
                { "a/b/.git", "gitdir: ../../.git/modules/a/b", true },
                { "wt/.git", "gitdir: /w/.git/worktrees/wt\n", true },
                { "wt/.git", "gitdir: /w/x/.git/worktrees/wt\n", true },
                { "wt/.git", "gitdir: ../.git/worktrees/wt\n", true },
                { "a/.git", "gitdir: ../.git/modules/x/modules/a\n", true },
                { "sub/.git", "", false },
                { "sub/.git", "gitdir: ", false },
                { "sub/.git", "gitdir:../.git/modules/sub\n", false },
                { "sub/.git", "gitdir: ../evil\n", false },
                { "sub/.git", "gitdir: evil/.git\n", false },
                { "sub/.git", "gitdir: ../../.git/modules/sub\n", false },
                { ".git", "gitdir: ../.git/modules/sub\n", false },
                { ".git", "gitdir: evil\n", false },
                { "sub/.git", "gitdir: ../x/../.git/modules/sub\n", false },
                { "sub/.git", "gitdir: ../.git/modules/..\n", false },
                { "sub/.git", "gitdir: ../.git/modules/../hooks\n", false },
                { "sub/.git", "gitdir: ../.git/modules\n", false },
                { "sub/.git", "gitdir: ../.git\n", false },
                { "sub/.git", "gitdir: ../.git/hooks/x\n", false },
                { "sub/.git", "gitdir: ../x.git/modules/x\n", false },
                { "wt/.git", "gitdir: /elsewhere/.git/worktrees/wt\n", false },
                { "wt/.git", "gitdir: /ww/.git/worktrees/wt\n", false },
                { "wt/.git", "gitdir: /w/../x/.git/worktrees/wt\n", false },
                { "wt/.git", "gitdir: /w/.git/worktrees/wt\n\n", false },
                { "wt/.git", "gitdir: /w/.git/worktrees/wt\r\n", false },
                { "wt/.git", "gitdir: /w/.git/worktrees/\n", false },
                { ".git/worktrees/w/commondir", "../..\n", true },
                { ".git/worktrees/w/commondir", "../../../evil\n", false },
                { ".git/worktrees/w/commondir", "/w/evil\n", false },
                { ".git/worktrees/w/commondir", "", false },
                { ".git/worktrees/w/gitdir", "/w/wt/.git\n", true },
                { ".git/worktrees/w/gitdir", "../../../wt/.git\n", true },
                { ".git/worktrees/w/gitdir", "/etc/.git\n", false },
                { ".git/worktrees/w/gitdir", "/w/wt\n", false },
                { ".git/worktrees/w/gitdir", "../../../../x/.git\n", false },
                { ".git/refs/heads/config", "0123456789012345678901234567890123456789\n", true },
                { ".git/modules/m/refs/heads/hooks/update", "0123456789012345678901234567890123456789\n",
                  true },
                { ".git/refs/heads/hooks/update", "ref: refs/heads/x\n", true },
                { ".git/refs/heads/hooks/update", "#!/bin/sh\n", false },
                { ".git/refs/heads/hooks/update", "ref: refs/$(x)\n", false },
                { ".git/refs/heads/hooks/update", "0123\n", false },
                { ".git/rebase-merge/git-rebase-todo",
                  "pick 1 a\n# exec\n\nfixup -C 2 b\nlabel x\nmerge -C 3 x\n", true },
                { ".git/rebase-merge/git-rebase-todo", "", true },
                { ".git/rebase-merge/git-rebase-todo", "pick 1 a\nexec x\n", false },
                { ".git/rebase-merge/git-rebase-todo", "x x", false },
                { ".git/rebase-merge/git-rebase-todo", " \texec x\n", false },
                { ".git/worktrees/w/rebase-merge/git-rebase-todo", "p 1\n\rx y\n", false },
                { ".git/rebase-merge/author-script",
                  "GIT_AUTHOR_NAME='J O'\\''N \"x\" $(y) '\\!''\nGIT_AUTHOR_EMAIL=''\nGIT_AUTHOR_DATE='@1 "
                  "+0000'\n",
                  true },
                { ".git/rebase-apply/author-script", "GIT_AUTHOR_NAME='a\nb'", true },
                { ".git/rebase-apply/author-script", "", true },
                { ".git/rebase-merge/author-script", "GIT_AUTHOR_NAME='x'; ./evil\n", false },
                { ".git/rebase-merge/author-script", "GIT_AUTHOR_NAME='x' ./evil\n", false },
                { ".git/rebase-merge/author-script", "GIT_AUTHOR_NAME='x''$(y)'\n", false },
                { ".git/rebase-merge/author-script", "GIT_AUTHOR_NAME='x'\\''\n", false },
                { ".git/rebase-merge/author-script", "GIT_AUTHOR_NAME=x\n", false },
                { ".git/rebase-merge/author-script", "GIT_AUTHOR_NAME=\"$(x)\"\n", false },
                { ".git/rebase-merge/author-script", "PATH='/w/evil'\n", false },
                { ".git/rebase-merge/author-script", "./evil\n", false },
                { ".git/rebase-merge/author-script", "\nGIT_AUTHOR_NAME='x'\n", false },
                { ".git/sequencer/opts", "[options]\n\tsignoff = true\n\tmainline = 1\n", true },
                { ".git/sequencer/opts", "[options]\n\tstrategy = x/y\n", false },
                { ".git/sequencer/opts", "[options]\n\tstrategy-option = x\n", false },
                { ".git/sequencer/opts", "[core]\n\tpager = x\n", false },
                { "any/config", "set -e\nexport A=1\n", true },
                { "any/config", "Host *\n  User x\n", true },
                { "any/config", "\n \t[core]\npager=x\n", false },
                { "any/config", "\xef\xbb\xbf[core]\npager=x\n", false },
                { "any/config", "a = [core]\n", true },
                { "any/config", "[core]\nbare = true\n", true },
                { ".git/config", "set -e\n", false },
                { ".git/logs/refs/heads/config", "0 1 A <a@b> 1 +0\tx\n", false },
                { "x/y", "", false },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                expect(cases[i].path, cases[i].text, cases[i].lands ? NULL : "");
}

static void judge_content_reads_gitmodules(void **state) {
        static const struct {
                const char *text;
                bool lands;
        } cases[] = {
                { "[submodule \"a\"]\npath = a\nurl = https://example.org/a\nbranch = main\nshallow = true\n",
                  true },
                { "[submodule \"a\"]\npath = x/a\nurl = ../a.git\nupdate = none\nignore = dirty\n", true },
                { "[submodule \"a\"]\npath = a\nurl = ./a\nfetchRecurseSubmodules = on-demand\nbranch = .\n",
                  true },
                { "[submodule \"a\"]\nupdate = !x\n", false },
                { "[submodule \"a\"]\nurl = -u./x\n", false },
                { "[submodule \"a\"]\nurl = ext::sh\n", false },
                { "[submodule \"a\"]\nurl = ../ext::x\n", false },
                { "[submodule \"a\"]\nurl = /w/evil\n", false },
                { "[submodule \"a\"]\nurl = ../..//example.org/x\n", false },
                { "[submodule \"a\"]\npath = -x\n", false },
                { "[submodule \"a\"]\npath = /x\n", false },
                { "[submodule \"a\"]\npath = ../x\n", false },
                { "[submodule \"a\"]\npath = x/.git/hooks\n", false },
                { "[submodule \"a\"]\npath = x/.GIT\n", false },
                { "[submodule \"a\"]\npath = \"x\\\\y\"\n", false },
                { "[submodule \"a\"]\npath = x/\n", false },
                { "[submodule \"../a\"]\npath = a\n", false },
                { "[submodule \"a\"]\nactive = true\n", false },
                { "[core]\nbare = true\n", false },
                { "[alias]\na = !b\n", false },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                expect(".gitmodules", cases[i].text, cases[i].lands ? NULL : "");
}

static void judge_change_knows_what_was_there(void **state) {
        static const char old[] = "[core]\npager = less\n[alias]\na = b\nc = d\n[remote \"o\"]\nurl = /up\n"
                                  "[branch \"x\"]\nremote = gone\n";
        static const struct {
                const char *text;
                bool lands;
        } cases[] = {
                { "[core]\npager = less\nbare = false\n[alias]\na = b\nc = d\n[remote \"o\"]\nurl = "
                  "/up\n[branch \"x\"]\n"
                  "remote = gone\n[user]\nname = x\n",
                  true },
                { "[core]\npager = evil\n[alias]\na = b\nc = d\n[remote \"o\"]\nurl = /up\n[branch "
                  "\"x\"]\nremote = gone\n",
                  false },
                { "[alias]\na = b\nc = d\n[core]\npager = less\n[remote \"o\"]\nurl = /up\n[branch "
                  "\"x\"]\nremote = gone\n",
                  false },
                { "[core]\npager = less\n[alias]\na = b\n[remote \"o\"]\nurl = /up\n[branch \"x\"]\nremote = "
                  "gone\n",
                  false },
                { "[core]\npager = less\n[alias]\na = b\nc = d\n[remote \"o\"]\nurl = /up\n[branch "
                  "\"x\"]\nremote = evil\n",
                  false },
                { "[core]\npager = less\n[alias]\na = b\nc = d\n[remote \"o\"]\nurl = /up\n[branch "
                  "\"x\"]\nremote = gone\n"
                  "[alias]\ne = f\n",
                  false },
                { "[core]\npager\n[alias]\na = b\nc = d\n[remote \"o\"]\nurl = /up\n[branch \"x\"]\nremote = "
                  "gone\n",
                  false },
                { "[core]\npager = less\n[", false },
                { "[user]\nname = x\n", true },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_BUF struct buf reason = { 0 };
                const bool lands = judge_change(ROOT, ".git/config", old, strlen(old), cases[i].text,
                                                strlen(cases[i].text), &reason);

                if (lands != cases[i].lands || lands != (reason.len == 0))
                        fail_msg("row %zu: %s", i, buf_cstr(&reason));
        }
        assert_false(judge_change(ROOT, ".git/hooks/x", "a", 1, "a", 1, NULL));
        assert_false(judge_change(ROOT, "x/.git", "a", 1, "a", 1, NULL));
        assert_true(judge_change(ROOT, ".git/modules/m/config", "[alias]\na=b\n", 12,
                                 "[alias]\na=b\n[core]\nworktree=../../../m\n", 39, NULL));
}

static void judge_content_without_root_takes_no_absolute_path(void **state) {
        static const char text[] = "gitdir: /w/.git/worktrees/wt\n";

        (void) state;
        assert_true(judge_content("/w", "wt/.git", text, strlen(text), NULL));
        assert_false(judge_content(NULL, "wt/.git", text, strlen(text), NULL));
}

static void judge_content_is_bounded(void **state) {
        AUTO_FREE char *text = malloc(JUDGE_MAX_BYTES + 1);
        AUTO_BUF struct buf reason = { 0 };

        (void) state;
        assert_non_null(text);
        memset(text, '\n', JUDGE_MAX_BYTES + 1);
        assert_true(judge_content(ROOT, ".git/config", text, JUDGE_MAX_BYTES, &reason));
        assert_false(judge_content(ROOT, ".git/config", text, JUDGE_MAX_BYTES + 1, &reason));
        assert_string_equal(reason.data, "too long to be judged");
}

/* The longest reason, and the most work that remotes can make. */
static void judge_content_takes_many_keys(void **state) {
        AUTO_BUF struct buf text = { 0 }, reason = { 0 };

        (void) state;
        for (int i = 0; i < 20000; i++)
                assert_int_equal(buf_fmt(&text, "[branch \"b%d\"]\nremote = r%d\n", i, i), 0);
        assert_false(judge_content(ROOT, ".git/config", text.data, text.len, &reason));
        assert_true(reason.len > 0 && reason.len <= JUDGE_REASON_MAX);
}

static void judge_link_holds_ways_into_git(void **state) {
        static const struct {
                const char *target;
                bool lands;
        } cases[] = {
                { "a", true },       { "../b/c", true },         { "/etc/passwd", true },
                { "", true },        { ".gitignore", true },     { "x.git/a", true },
                { ".git", false },   { "../.git/hooks", false }, { "/w/.git", false },
                { ".GIT/x", false }, { "git~1", false },         { "a/.g\xe2\x80\x8cit", false },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                if (judge_link(cases[i].target) != cases[i].lands)
                        fail_msg("'%s'", cases[i].target);
        }
}

/* --- what git itself writes -------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw) {
        (void) st;
        (void) flag;
        (void) ftw;
        return remove(path);
}

/* All of it in one shell, in the directory $W. Remotes are given as addresses, without a network. */
static const char git_script[] =
        "set -e; cd \"$W\"\n"
        "export HOME=\"$W\" GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=\"$W/gitconfig\" GIT_TERMINAL_PROMPT=0\n"
        "git config --global user.name t; git config --global user.email t@e\n"
        "git config --global protocol.file.allow always; git config --global init.defaultBranch main\n"
        "git config --global url.\"file://$W/up\".insteadOf https://example.org/up\n"
        "git init -q up; cd up; mkdir d; echo a > d/f; echo a > g; git add .; git commit -qm 1; cd ..\n"
        "git init -q plain; git init -q --bare bare.git; git init -q --bare other\n"
        "git clone -q https://example.org/up cl; cd cl\n"
        "git remote add second git@example.org:a/b.git\n"
        "git switch -qc feat; git branch -q --set-upstream-to=origin/main feat; git config pull.x y; git "
        "config --unset pull.x\n"
        "git config --remove-section pull 2>/dev/null || true\n"
        "git push -q -u origin feat:feat2\n"
        "git submodule --quiet add https://example.org/up deps/lib; git commit -qam sub; git submodule "
        "--quiet update --init\n"
        "git worktree add -q wt\n"
        "git sparse-checkout set d\n"
        "git branch config; git branch hooks/update\n";

static void expect_file(const char *root, const char *path) {
        AUTO_BUF struct buf data = { 0 }, reason = { 0 };
        AUTO_FREE char *full = NULL;

        assert_true(asprintf(&full, "%s/%s", root, path) > 0);
        if (file_read_at(AT_FDCWD, full, JUDGE_MAX_BYTES, &data) < 0)
                fail_msg("no %s", full);
        assert_true(judge_applies(path));
        if (!judge_content(root, path, buf_cstr(&data), data.len, &reason))
                fail_msg("%s is held: %s\n%s", path, buf_cstr(&reason), buf_cstr(&data));
}

static void judge_content_lands_what_git_writes(void **state) {
        static const char *const files[] = {
                "plain/.git/config",
                "bare.git/config",
                "other/config",
                "cl/.git/config",
                "cl/.git/config.worktree",
                "cl/.git/modules/deps/lib/config",
                "cl/.gitmodules",
                "cl/deps/lib/.git",
                "cl/wt/.git",
                "cl/.git/worktrees/wt/commondir",
                "cl/.git/worktrees/wt/gitdir",
                "cl/.git/refs/heads/config",
                "cl/.git/refs/heads/hooks/update",
        };
        char dir[] = "/tmp/cofferdam-judge-XXXXXX";
        AUTO_FREE char *command = NULL;
        int r;

        (void) state;
        if (system("command -v git >/dev/null 2>&1") != 0)
                skip();
        assert_non_null(mkdtemp(dir));
        assert_true(asprintf(&command, "W='%s'\n%s", dir, git_script) > 0);
        r = system(command);
        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(files); i++)
                expect_file(dir, files[i]);
        assert_int_equal(nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
        assert_int_equal(r, 0);
}

static void judge_same_place_counts_modules(void **state) {
        static const struct {
                const char *from, *to;
                bool same;
        } cases[] = {
                { "a", "b", true },
                { "a/b", "c", true },
                { ".git/modules/a", ".git/modules/b", true },
                { ".git/modules/a/b", ".git/modules/a", false },
                { ".git/modules/a", ".git/modules/b/a", false },
                { "x/.git/modules/a", "y/z/.git/modules/a", true },
                { ".GIT/modules/a/b", ".git/modules/a", false },
                { ".git/modules/a", "a", false },
                { "a.git/modules/a/b", "a.git/modules/a", true },
                { "a//b", "a", false },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                if (judge_same_place(cases[i].from, cases[i].to) != cases[i].same)
                        fail_msg("%s -> %s", cases[i].from, cases[i].to);
        }
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(judge_same_place_counts_modules),
                cmocka_unit_test(judge_applies_to_known_files),
                cmocka_unit_test(judge_applies_only_to_held_files),
                cmocka_unit_test(judge_content_holds_each_dangerous_key),
                cmocka_unit_test(judge_content_lands_safe_configs),
                cmocka_unit_test(judge_content_knows_addresses),
                cmocka_unit_test(judge_content_checks_a_submodules_place),
                cmocka_unit_test(judge_content_reads_git_files),
                cmocka_unit_test(judge_content_reads_gitmodules),
                cmocka_unit_test(judge_change_knows_what_was_there),
                cmocka_unit_test(judge_content_without_root_takes_no_absolute_path),
                cmocka_unit_test(judge_content_is_bounded),
                cmocka_unit_test(judge_content_takes_many_keys),
                cmocka_unit_test(judge_link_holds_ways_into_git),
                cmocka_unit_test(judge_content_lands_what_git_writes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
