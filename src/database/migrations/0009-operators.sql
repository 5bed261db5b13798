-- Who may use the operators' API. Operators belong to no tenant: there is no policy by tenant here, only signet_operator
-- has anything to do with these tables.

CREATE TABLE operators (
  id          text COLLATE "C" PRIMARY KEY,
  name        text NOT NULL CONSTRAINT operators_name_once UNIQUE,
  role        text NOT NULL CONSTRAINT operators_role CHECK (role IN ('read', 'provision', 'security')),
  state       text NOT NULL DEFAULT 'ACTIVE' CONSTRAINT operators_state CHECK (state IN ('ACTIVE', 'REVOKED')),
  -- The client certificates that are this operator, where the listener speaks TLS.
  san_uri     text,
  certificate_thumbprints text[] NOT NULL DEFAULT '{}',
  -- The operator who made this one.
  created_by  text NOT NULL,
  created_at  timestamptz NOT NULL,
  revoked_at  timestamptz
);
CREATE UNIQUE INDEX operators_san_uri_once ON operators (san_uri) WHERE state = 'ACTIVE';
CREATE INDEX operators_of_certificate ON operators USING gin (certificate_thumbprints);

CREATE TABLE operator_tokens (
  id           text COLLATE "C" PRIMARY KEY,
  operator_id  text COLLATE "C" NOT NULL REFERENCES operators,
  -- The beginning of the token, so that people can tell theirs apart.
  prefix       text NOT NULL,
  -- HMAC-SHA-256 of the token under the pepper named by mac_key_id.
  mac          bytea NOT NULL CONSTRAINT operator_tokens_mac_once UNIQUE,
  mac_key_id   text NOT NULL,
  created_by   text NOT NULL,
  created_at   timestamptz NOT NULL,
  expires_at   timestamptz NOT NULL,
  last_used_at timestamptz,
  revoked_at   timestamptz
);
CREATE INDEX operator_tokens_of_operator ON operator_tokens (operator_id, id);

ALTER TABLE operators ENABLE ROW LEVEL SECURITY;
ALTER TABLE operators FORCE ROW LEVEL SECURITY;
ALTER TABLE operator_tokens ENABLE ROW LEVEL SECURITY;
ALTER TABLE operator_tokens FORCE ROW LEVEL SECURITY;
CREATE POLICY operator_rows ON operators TO signet_operator USING (true) WITH CHECK (true);
CREATE POLICY operator_rows ON operator_tokens TO signet_operator USING (true) WITH CHECK (true);
GRANT SELECT, INSERT ON operators, operator_tokens TO signet_operator;
GRANT UPDATE (role, state, san_uri, certificate_thumbprints, revoked_at) ON operators TO signet_operator;
GRANT UPDATE (mac, mac_key_id, last_used_at, revoked_at) ON operator_tokens TO signet_operator;

-- Who did it, so that the log can be asked. Only a function that says so itself counts as immutable; in a database of
-- UTF-8 this one is.
CREATE FUNCTION compliance_actor(entry bytea) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT convert_from(entry, 'UTF8')::jsonb ->> 'actor' $$;
ALTER TABLE clog ADD COLUMN actor text COLLATE "C" GENERATED ALWAYS AS (compliance_actor(entry)) STORED;
CREATE INDEX clog_of_actor ON clog (actor, idx);
CREATE INDEX clog_of_type ON clog (type, idx);
CREATE INDEX clog_by_time ON clog (at);
