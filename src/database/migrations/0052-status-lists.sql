-- Token Status Lists (draft-ietf-oauth-status-list): which place of which list a token has. Only tokens of audiences that
-- ask for it have one. The lists are shared by all tenants and audiences, so that a list tells nothing of them.
CREATE TABLE status_lists (
  id               text COLLATE "C" PRIMARY KEY,
  -- The list in the rows of its tokens, and in their jti.
  number           int GENERATED ALWAYS AS IDENTITY CONSTRAINT status_lists_number_once UNIQUE,
  -- Orders the places at random, so that neighbours have nothing in common.
  order_key        bytea NOT NULL,
  -- Places that processes have reserved, in blocks.
  reserved         int NOT NULL CONSTRAINT status_lists_reserved CHECK (reserved BETWEEN 0 AND 1048576),
  created_at       timestamptz NOT NULL,
  last_reserved_at timestamptz NOT NULL
);
CREATE INDEX status_lists_by_age ON status_lists (last_reserved_at);

-- A token in a list, until the list ends. The token itself is not stored. One index, because it is written for each token:
-- a place is unique because its block was reserved once.
CREATE TABLE status_list_tokens (
  list          int NOT NULL,
  credential_id text COLLATE "C" NOT NULL,
  place         int NOT NULL,
  -- `iat`, in seconds of Unix time.
  issued_at     bigint NOT NULL,
  -- SHA-256 of the certificate that the token is bound to.
  certificate   bytea,
  PRIMARY KEY (list, credential_id, place)
);

ALTER TABLE status_lists ENABLE ROW LEVEL SECURITY;
ALTER TABLE status_lists FORCE ROW LEVEL SECURITY;
ALTER TABLE status_list_tokens ENABLE ROW LEVEL SECURITY;
ALTER TABLE status_list_tokens FORCE ROW LEVEL SECURITY;
CREATE POLICY issuer_rows ON status_lists TO signet_issuer USING (true) WITH CHECK (true);
CREATE POLICY issuer_rows ON status_list_tokens TO signet_issuer USING (true) WITH CHECK (true);
CREATE POLICY worker_rows ON status_lists TO signet_worker USING (true);
CREATE POLICY worker_rows ON status_list_tokens TO signet_worker USING (true);
GRANT SELECT, INSERT, UPDATE (reserved, last_reserved_at) ON status_lists TO signet_issuer;
GRANT SELECT, INSERT ON status_list_tokens TO signet_issuer;
GRANT SELECT, DELETE ON status_lists, status_list_tokens TO signet_worker;

-- A list says which of its tokens are revoked.
CREATE POLICY issuer_rows ON revocations FOR SELECT TO signet_issuer USING (true);
GRANT SELECT (seq, kind, target, at, expires_at, issued_before) ON revocations TO signet_issuer;
