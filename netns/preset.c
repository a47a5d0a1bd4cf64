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
        "**.openai.azure.com",
        /* no wildcard reaches the regions: they are not whole labels at the start */
        "bedrock-runtime.us-east-1.amazonaws.com",
        "bedrock-runtime.us-east-2.amazonaws.com",
        "bedrock-runtime.us-west-1.amazonaws.com",
        "bedrock-runtime.us-west-2.amazonaws.com",
        "bedrock-runtime.ca-central-1.amazonaws.com",
        "bedrock-runtime.sa-east-1.amazonaws.com",
        "bedrock-runtime.eu-central-1.amazonaws.com",
        "bedrock-runtime.eu-central-2.amazonaws.com",
        "bedrock-runtime.eu-north-1.amazonaws.com",
        "bedrock-runtime.eu-south-1.amazonaws.com",
        "bedrock-runtime.eu-south-2.amazonaws.com",
        "bedrock-runtime.eu-west-1.amazonaws.com",
        "bedrock-runtime.eu-west-2.amazonaws.com",
        "bedrock-runtime.eu-west-3.amazonaws.com",
        "bedrock-runtime.ap-northeast-1.amazonaws.com",
        "bedrock-runtime.ap-northeast-2.amazonaws.com",
        "bedrock-runtime.ap-northeast-3.amazonaws.com",
        "bedrock-runtime.ap-south-1.amazonaws.com",
        "bedrock-runtime.ap-south-2.amazonaws.com",
        "bedrock-runtime.ap-southeast-1.amazonaws.com",
        "bedrock-runtime.ap-southeast-2.amazonaws.com",
        "aiplatform.googleapis.com",
        "us-central1-aiplatform.googleapis.com",
        "us-east1-aiplatform.googleapis.com",
        "us-east4-aiplatform.googleapis.com",
        "us-east5-aiplatform.googleapis.com",
        "us-south1-aiplatform.googleapis.com",
        "us-west1-aiplatform.googleapis.com",
        "us-west4-aiplatform.googleapis.com",
        "northamerica-northeast1-aiplatform.googleapis.com",
        "southamerica-east1-aiplatform.googleapis.com",
        "europe-central2-aiplatform.googleapis.com",
        "europe-north1-aiplatform.googleapis.com",
        "europe-southwest1-aiplatform.googleapis.com",
        "europe-west1-aiplatform.googleapis.com",
        "europe-west2-aiplatform.googleapis.com",
        "europe-west3-aiplatform.googleapis.com",
        "europe-west4-aiplatform.googleapis.com",
        "europe-west6-aiplatform.googleapis.com",
        "europe-west8-aiplatform.googleapis.com",
        "europe-west9-aiplatform.googleapis.com",
        "asia-east1-aiplatform.googleapis.com",
        "asia-east2-aiplatform.googleapis.com",
        "asia-northeast1-aiplatform.googleapis.com",
        "asia-northeast3-aiplatform.googleapis.com",
        "asia-south1-aiplatform.googleapis.com",
        "asia-southeast1-aiplatform.googleapis.com",
        "australia-southeast1-aiplatform.googleapis.com",
        "me-west1-aiplatform.googleapis.com",
        "chatgpt.com",
        "radius.pi.dev",
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
