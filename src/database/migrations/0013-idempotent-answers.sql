-- Answers to POSTs with an Idempotency-Key that make what cannot be read again, for instance a client secret. An answer is
-- sealed under a key made of the Idempotency-Key and the pepper; the Idempotency-Key itself is not kept. So neither the
-- database nor the database with every key of ours opens it: it takes the key that the caller holds.
CREATE TABLE idempotent_answers (
  -- Whose key it is: a tenant, or an operator.
  owner_id   text COLLATE "C" NOT NULL,
  route      text COLLATE "C" NOT NULL,
  -- SHA-256 of the Idempotency-Key.
  key_digest bytea NOT NULL,
  -- SHA-256 of what was asked for.
  body_hash  bytea NOT NULL,
  -- Null only until the transaction that has taken the key ends.
  answer     text,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (owner_id, route, key_digest)
);
CREATE INDEX idempotent_answers_by_age ON idempotent_answers (created_at);

ALTER TABLE idempotent_answers ENABLE ROW LEVEL SECURITY;
ALTER TABLE idempotent_answers FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON idempotent_answers TO signet_api
  USING (owner_id = current_tenant()) WITH CHECK (owner_id = current_tenant());
CREATE POLICY operator_rows ON idempotent_answers TO signet_operator
  USING (owner_id NOT LIKE 'ten\_%') WITH CHECK (owner_id NOT LIKE 'ten\_%');
CREATE POLICY worker_rows ON idempotent_answers TO signet_worker USING (true);
GRANT SELECT, INSERT, UPDATE ON idempotent_answers TO signet_api, signet_operator;
GRANT SELECT (owner_id, route, key_digest, created_at), DELETE ON idempotent_answers TO signet_worker;
