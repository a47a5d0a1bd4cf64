-- Tokens that are revoked together, also where they are of one run with others.
ALTER TABLE auth_proxy_token ADD COLUMN token_group text;
CREATE INDEX auth_proxy_token_group ON auth_proxy_token (token_group) WHERE revoked_at IS NULL;
