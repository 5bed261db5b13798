-- New credentials, acknowledged rotations and changed scopes leave notices, as revocations and planned ends do: none of
-- them waits for the key service, the tenant's streams, or room for events.
ALTER TABLE revocation_notices
  -- What the events tell beside the target: `certificate` of a new credential, `scope` of a principal.
  ADD COLUMN details jsonb;

ALTER POLICY rotator_adds ON revocation_notices WITH CHECK (kind IN ('ended', 'rotated'));
GRANT INSERT (details) ON revocation_notices TO signet_rotator;

CREATE POLICY tenant_adds ON revocation_notices FOR INSERT TO signet_api
  WITH CHECK (tenant_id = current_tenant() AND kind = 'created');
GRANT INSERT (kind, target, tenant_id, reason, actor, at, details) ON revocation_notices TO signet_api;
