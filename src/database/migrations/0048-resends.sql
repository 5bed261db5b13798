-- Resends: new cycles of deliveries that had ended, and replay jobs over deliveries in several states.

-- The cycles that a resend began. Neighbouring cycles share a range, so it stays small.
ALTER TABLE deliveries ADD COLUMN resent_cycles int4multirange;

-- A resend moves an attempt out of the delivery's row (0044) into a row of its own.
GRANT INSERT (day, delivery_id, cycle, attempt, id, tenant_id, started_at, duration_ms, status, response)
  ON attempts TO signet_api;
GRANT UPDATE (id, started_at, duration_ms, status, lease_until) ON attempts TO signet_api;

ALTER TABLE replay_jobs
  DROP CONSTRAINT replay_jobs_kind,
  -- Migration 0059 validates both constraints, without stopping anything.
  ADD CONSTRAINT replay_jobs_kind CHECK (kind IN ('dead_letters', 'deliveries', 'missing')) NOT VALID,
  -- The selected states of a job over deliveries.
  ADD COLUMN states text[];

ALTER TABLE replay_items
  -- The delivery's state at the job's creation; null for dead letters and missed events.
  ADD COLUMN state text,
  -- Number of attempts in the delivery's cycle when the item was carried out.
  ADD COLUMN attempts int,
  DROP CONSTRAINT replay_items_result,
  ADD CONSTRAINT replay_items_result CHECK (result IN
    ('replayed', 'attempted', 'not_in_queue', 'state_changed', 'content_erased', 'delivery_exists', 'expired', 'not_found',
     'endpoint_unavailable')) NOT VALID;
GRANT UPDATE (attempts) ON replay_items TO signet_worker;
