-- Tenants, what they may do, and how they prove who they are. Roles are made by migrate.ts: they belong to the
-- cluster, not to this database. Every tenant table has row-level security, FORCEd so that it binds its owner too.

CREATE TABLE tenants (
  id          text COLLATE "C" PRIMARY KEY,
  name        text NOT NULL CONSTRAINT tenants_name_length CHECK (length(name) BETWEEN 1 AND 128),
  region      text NOT NULL,
  state       text NOT NULL DEFAULT 'ACTIVE' CONSTRAINT tenants_state CHECK (state IN ('ACTIVE', 'SUSPENDED')),
  -- The tenant that the platform's own services belong to; only its principals may hold events:publish_any.
  platform    boolean NOT NULL DEFAULT false,
  -- The tenant's data key, wrapped by the key-encryption key; without it the tenant's secrets are noise.
  data_key    text NOT NULL,
  created_at  timestamptz NOT NULL
);
CREATE UNIQUE INDEX tenants_one_platform ON tenants (platform) WHERE platform;

CREATE TABLE roles (
  id          text COLLATE "C" PRIMARY KEY,
  tenant_id   text COLLATE "C" NOT NULL REFERENCES tenants,
  name        text NOT NULL,
  scopes      text[] NOT NULL,
  created_at  timestamptz NOT NULL,
  CONSTRAINT roles_name_once UNIQUE (tenant_id, name)
);

CREATE TABLE principals (
  id             text COLLATE "C" PRIMARY KEY,
  tenant_id      text COLLATE "C" NOT NULL REFERENCES tenants,
  role_id        text COLLATE "C" NOT NULL REFERENCES roles,
  name           text NOT NULL,
  region         text NOT NULL,
  environment    text NOT NULL CONSTRAINT principals_environment CHECK (environment IN ('production', 'development')),
  -- Copied from the role when the principal is provisioned (specification 2): a later change of the role changes nobody.
  scopes         text[] NOT NULL,
  provisioned_at timestamptz NOT NULL,
  created_at     timestamptz NOT NULL,
  CONSTRAINT principals_name_once UNIQUE (tenant_id, name)
);
CREATE INDEX principals_of_role ON principals (role_id);

CREATE TABLE credentials (
  id            text COLLATE "C" PRIMARY KEY,
  tenant_id     text COLLATE "C" NOT NULL REFERENCES tenants,
  principal_id  text COLLATE "C" NOT NULL REFERENCES principals,
  client_id     text COLLATE "C" NOT NULL CONSTRAINT credentials_client_id_once UNIQUE,
  state         text NOT NULL DEFAULT 'ACTIVE' CONSTRAINT credentials_state CHECK (state IN ('ACTIVE', 'REVOKED')),
  rotation_mode text NOT NULL CONSTRAINT credentials_rotation_mode CHECK (rotation_mode IN ('in_band', 'workload', 'manual')),
  san_uri       text,
  certificate_thumbprints text[] NOT NULL DEFAULT '{}',
  created_at    timestamptz NOT NULL,
  revoked_at    timestamptz
);
CREATE INDEX credentials_of_principal ON credentials (principal_id, id);
CREATE INDEX credentials_of_tenant ON credentials (tenant_id, id);

CREATE TABLE secret_versions (
  credential_id text COLLATE "C" NOT NULL REFERENCES credentials,
  version       int NOT NULL,
  tenant_id     text COLLATE "C" NOT NULL REFERENCES tenants,
  -- HMAC-SHA-256 of the secret under the pepper named by mac_key_id: the table alone cannot even test a guess.
  mac           bytea NOT NULL,
  mac_key_id    text NOT NULL,
  state         text NOT NULL CONSTRAINT secret_versions_state
                CHECK (state IN ('PENDING', 'ACTIVE', 'RETIRING', 'RETIRED', 'REVOKED')),
  issued_at     timestamptz NOT NULL,
  due_at        timestamptz,
  acked_at      timestamptz,
  last_used_at  timestamptz,
  retire_by     timestamptz,
  -- The successor's secret, readable only with its predecessor (security decisions C).
  wrapped       text,
  PRIMARY KEY (credential_id, version)
);

CREATE TABLE signing_keys (
  kid          text COLLATE "C" PRIMARY KEY,
  alg          text NOT NULL CONSTRAINT signing_keys_alg CHECK (alg IN ('ES256', 'RS256', 'Ed25519')),
  public_jwk   jsonb NOT NULL,
  private_key  text NOT NULL,
  state        text NOT NULL CONSTRAINT signing_keys_state CHECK (state IN ('NEXT', 'CURRENT', 'PREVIOUS', 'GONE')),
  created_at   timestamptz NOT NULL,
  activated_at timestamptz,
  retired_at   timestamptz
);
CREATE UNIQUE INDEX signing_keys_one_current ON signing_keys (state) WHERE state = 'CURRENT';

ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenants FORCE ROW LEVEL SECURITY;
ALTER TABLE roles ENABLE ROW LEVEL SECURITY;
ALTER TABLE roles FORCE ROW LEVEL SECURITY;
ALTER TABLE principals ENABLE ROW LEVEL SECURITY;
ALTER TABLE principals FORCE ROW LEVEL SECURITY;
ALTER TABLE credentials ENABLE ROW LEVEL SECURITY;
ALTER TABLE credentials FORCE ROW LEVEL SECURITY;
ALTER TABLE secret_versions ENABLE ROW LEVEL SECURITY;
ALTER TABLE secret_versions FORCE ROW LEVEL SECURITY;

-- A setting that was set in an earlier transaction of the connection reads '' afterwards, not NULL: hence nullif.
CREATE FUNCTION current_tenant() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
  AS $$ SELECT nullif(current_setting('app.tenant_id', true), '') $$;

CREATE POLICY tenant_rows ON tenants FOR SELECT TO signet_api USING (id = current_tenant());
CREATE POLICY tenant_rows ON roles FOR SELECT TO signet_api USING (tenant_id = current_tenant());
CREATE POLICY tenant_rows ON principals FOR SELECT TO signet_api USING (tenant_id = current_tenant());
CREATE POLICY tenant_rows ON credentials FOR SELECT TO signet_api USING (tenant_id = current_tenant());

CREATE POLICY operator_rows ON tenants TO signet_operator USING (true) WITH CHECK (true);
CREATE POLICY operator_rows ON roles TO signet_operator USING (true) WITH CHECK (true);
CREATE POLICY operator_rows ON principals TO signet_operator USING (true) WITH CHECK (true);
CREATE POLICY operator_rows ON credentials TO signet_operator USING (true) WITH CHECK (true);
CREATE POLICY operator_rows ON secret_versions TO signet_operator USING (true) WITH CHECK (true);

-- The token endpoint meets a client_id before it knows a tenant.
CREATE POLICY issuer_rows ON tenants FOR SELECT TO signet_issuer USING (true);
CREATE POLICY issuer_rows ON principals FOR SELECT TO signet_issuer USING (true);
CREATE POLICY issuer_rows ON credentials FOR SELECT TO signet_issuer USING (true);
CREATE POLICY issuer_rows ON secret_versions TO signet_issuer USING (true) WITH CHECK (true);

CREATE POLICY worker_rows ON tenants FOR SELECT TO signet_worker USING (true);

GRANT SELECT ON tenants, roles, principals, credentials TO signet_api;
GRANT SELECT, INSERT, UPDATE ON tenants, roles, principals, credentials, secret_versions, signing_keys TO signet_operator;
GRANT SELECT ON tenants, principals, credentials, signing_keys TO signet_issuer;
GRANT SELECT, UPDATE (last_used_at, mac, mac_key_id) ON secret_versions TO signet_issuer;
GRANT SELECT ON tenants TO signet_worker;
