-- One row a token. The token itself is nowhere: id is its SHA-256. credential is sealed with a key that the database
-- does not have, and NULL from the revocation on.
CREATE TABLE auth_proxy_token (
        id text PRIMARY KEY CHECK (id ~ '^[0-9a-f]{64}$'),
        run text NOT NULL,
        step text NOT NULL,
        expires_at bigint NOT NULL,
        credential bytea,
        revoked_at bigint,
        CHECK ((credential IS NULL) = (revoked_at IS NOT NULL))
);
