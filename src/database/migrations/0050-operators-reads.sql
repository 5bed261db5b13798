-- What operators see of webhooks: ids, states, times and URLs of all tenants. No content: neither events' data, nor
-- responses, nor headers, metadata and secrets of endpoints; `authentication` holds no secret (docs/security-model.md).
CREATE POLICY operator_rows ON endpoints FOR SELECT TO signet_operator USING (true);
CREATE POLICY operator_rows ON replay_jobs FOR SELECT TO signet_operator USING (true);
GRANT SELECT (id, tenant_id, url, state, disabled_reason, verification_state, verification_requested_at,
  secret_rotation_days, authentication, created_at, updated_at) ON endpoints TO signet_operator;
GRANT SELECT (carrier, claimed_at, next_attempt_at, created_at, expires_at) ON deliveries TO signet_operator;
GRANT SELECT (id, tenant_id, state, finished_at) ON replay_jobs TO signet_operator;
GRANT SELECT (created_at) ON endpoint_secrets TO signet_operator;
GRANT SELECT ON endpoint_health, workers TO signet_operator;
-- What each worker does, for the overview.
ALTER TABLE workers ADD COLUMN attempts_per_second real NOT NULL DEFAULT 0;

-- The overview reads the starts of these, whatever the number of endpoints.
CREATE INDEX endpoints_by_certificate ON endpoints ((authentication::jsonb ->> 'not_after'))
  WHERE authentication LIKE '%"client_certificate"%' AND state <> 'DELETED';
CREATE INDEX endpoints_stopped ON endpoints (updated_at) WHERE state = 'DISABLED' AND disabled_reason IN ('failing', 'gone');
CREATE INDEX endpoint_activity_failing ON endpoint_activity (health_since) WHERE health = 'failing';

-- Sessions of operators' browsers. Only the SHA-256 of the cookie's secret is stored.
CREATE TABLE operator_sessions (
  hash             bytea PRIMARY KEY,
  -- An operator's id, or `bootstrap`.
  operator_id      text COLLATE "C" NOT NULL,
  -- The token that signed in, whose end ends the session; null for a certificate and for the bootstrap token.
  token_id         text COLLATE "C" REFERENCES operator_tokens,
  -- SHA-256 of the certificate that signed in, which each request must present; null for a token.
  certificate      text,
  -- SHA-256 of the bootstrap token that signed in; null for others.
  bootstrap_hash   bytea,
  -- The tenant that is viewed; null on the operators' own pages.
  viewed           text COLLATE "C" REFERENCES tenants,
  created_at       timestamptz NOT NULL,
  expires_at       timestamptz NOT NULL
);
CREATE INDEX operator_sessions_of_operator ON operator_sessions (operator_id, expires_at);
ALTER TABLE operator_sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE operator_sessions FORCE ROW LEVEL SECURITY;
CREATE POLICY operator_rows ON operator_sessions TO signet_operator USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, DELETE, UPDATE (viewed) ON operator_sessions TO signet_operator;
