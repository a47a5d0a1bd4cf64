-- Tokens bound to the address of one client; a run's tokens and expired ones are found without reading all.
ALTER TABLE auth_proxy_token ADD COLUMN source text;
CREATE INDEX auth_proxy_token_run ON auth_proxy_token (run) WHERE revoked_at IS NULL;
CREATE INDEX auth_proxy_token_expires_at ON auth_proxy_token (expires_at);
