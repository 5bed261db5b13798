-- The attempt of a delivery that its first attempt delivers: one version of one row less. It began at cycle_started_at and
-- was answered with last_status. Attempts that were leased, failed, or answered with a long body have a row of their own.
ALTER TABLE deliveries
  ADD COLUMN first_duration_ms int,
  -- Sealed, like the responses in attempts.
  ADD COLUMN first_response bytea;
