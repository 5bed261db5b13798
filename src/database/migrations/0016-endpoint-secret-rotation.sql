-- Rotation of endpoint secrets (security decisions F). Which version signs first follows from these times and the sender's
-- clock: rows are moved on by whoever comes next, and nothing waits for that.

ALTER TABLE endpoint_secrets
  -- When the version became the one that signs first, or is going to; null: from its beginning.
  ADD COLUMN current_at timestamptz,
  -- When the other version of the rotation is over: of NEXT the one before it, of PREVIOUS the version itself.
  ADD COLUMN overlap_ends_at timestamptz,
  ADD COLUMN retired_at timestamptz,
  ADD CONSTRAINT endpoint_secrets_times CHECK (CASE state
    WHEN 'NEXT' THEN current_at IS NOT NULL AND overlap_ends_at >= current_at
    WHEN 'PREVIOUS' THEN overlap_ends_at IS NOT NULL
    WHEN 'RETIRED' THEN secret = ''
    ELSE true END);

-- What signs beside the current version: nothing, for nearly every endpoint at nearly every time.
CREATE UNIQUE INDEX endpoint_secrets_beside ON endpoint_secrets (endpoint_id, state) WHERE state IN ('NEXT', 'PREVIOUS');

-- The worker moves on what its time has come for, and erases.
GRANT UPDATE (state, secret, current_at, overlap_ends_at, retired_at) ON endpoint_secrets TO signet_worker;
CREATE POLICY worker_moves ON endpoint_secrets FOR UPDATE TO signet_worker USING (true) WITH CHECK (true);

-- A hold stops the times of a rotation: its release puts them off by as long as it was.
GRANT SELECT (endpoint_id, version, tenant_id, state, current_at, overlap_ends_at), UPDATE (current_at, overlap_ends_at)
  ON endpoint_secrets TO signet_operator;
CREATE POLICY operator_rows ON endpoint_secrets TO signet_operator USING (true) WITH CHECK (true);
