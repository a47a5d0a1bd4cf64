#include "netns/preset.h"

#include <string.h>

#include "runtime/base/cleanup.h"

static const char *const none_rules[] = { NULL };

/* what a coding agent needs on most days */
static const char *const default_rules[] = {
        "api.anthropic.com",
        "api.openai.com",
        "openrouter.ai",
        "**.bedrock.amazonaws.com",
        "**.googleapis.com",
        "**.openai.azure.com",
        "api.mistral.ai",
        "api.z.ai",
        "api.x.ai",
        "registry.npmjs.org",
        "**.npmjs.org",
        "pypi.org",
        "files.pythonhosted.org",
        "proxy.golang.org",
        "sum.golang.org",
        "github.com",
        "**.github.com",
        "codeload.github.com",
        "objects.githubusercontent.com",
        "gitlab.com",
        "**.gitlab.com",
        "bitbucket.org",
        "**.bitbucket.org",
        "deb.debian.org",
        "security.debian.org",
        "cache.nixos.org",
        "channels.nixos.org",
        "releases.nixos.org",
        "nix-community.cachix.org",
        "devbox.sh",
        "**.devbox.sh",
        "get.jetify.com",
        NULL,
};

static const char *const registry_rules[] = {
        "**.npmjs.org",
        "registry.yarnpkg.com",
        "pypi.org",
        "files.pythonhosted.org",
        "crates.io",
        "index.crates.io",
        "static.crates.io",
        "proxy.golang.org",
        "sum.golang.org",
        "rubygems.org",
        "**.rubygems.org",
        "repo1.maven.org",
        "repo.maven.apache.org",
        "plugins.gradle.org",
        "api.nuget.org",
        "packagist.org",
        "repo.packagist.org",
        "hex.pm",
        "repo.hex.pm",
        "cpan.metacpan.org",
        "conda.anaconda.org",
        "deb.debian.org",
        "security.debian.org",
        "archive.ubuntu.com",
        "security.ubuntu.com",
        "ports.ubuntu.com",
        "dl-cdn.alpinelinux.org",
        "cache.nixos.org",
        NULL,
};

static const char *const code_rules[] = {
        "**.github.com",       "github.com:22/tcp", "**.githubusercontent.com", "**.gitlab.com",
        "gitlab.com:22/tcp",   "**.bitbucket.org",  "bitbucket.org:22/tcp",     "codeberg.org",
        "codeberg.org:22/tcp", "git.sr.ht",         "git.sr.ht:22/tcp",         NULL,
};

static const char *const model_rules[] = {
        "api.anthropic.com",
        "api.openai.com",
        "openrouter.ai",
        "api.x.ai",
        "api.mistral.ai",
        "api.z.ai",
        "api.moonshot.ai",
        "api.moonshot.cn",
        "generativelanguage.googleapis.com",
        "**.aiplatform.googleapis.com",
        "**.openai.azure.com",
        "**.bedrock.amazonaws.com",
        NULL,
};

static const struct preset presets[] = {
        { "default", default_rules },
        { "none", none_rules },
        { "package-registries", registry_rules },
        { "code-hosts", code_rules },
        { "model-apis", model_rules },
        { "iterion-default", default_rules }, /* its name in specifications of that orchestrator */
};

const struct preset *preset_find(const char *name, size_t len) {
        for (size_t i = 0; i < ARRAY_SIZE(presets); i++) {
                if (strlen(presets[i].name) == len && memcmp(presets[i].name, name, len) == 0)
                        return &presets[i];
        }
        return NULL;
}

const char *preset_names(void) {
        return "default, none, package-registries, code-hosts, model-apis";
}

bool preset_is_telemetry(const char *name) {
        static const char *const hosts[] = {
                "http-intake.logs.us5.datadoghq.com",
                "http-intake.logs.us3.datadoghq.com",
                "http-intake.logs.us.datadoghq.com",
                "http-intake.logs.datadoghq.eu",
                "http-intake.logs.eu.datadoghq.com",
                "http-intake.logs.datadoghq.com",
                "api.datadoghq.com",
                "api.githubcopilot.com",
                "mcp-proxy.anthropic.com",
                "ingest.sentry.io",
                "ingest.de.sentry.io",
                "ingest.us.sentry.io",
        };
        const size_t len = strlen(name);

        for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
                const size_t n = strlen(hosts[i]);

                if (len >= n && strcmp(name + len - n, hosts[i]) == 0 &&
                    (len == n || name[len - n - 1] == '.'))
                        return true;
        }
        return false;
}
