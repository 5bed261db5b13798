-- Deliveries per second that an endpoint takes at most; null for no limit.
ALTER TABLE endpoints ADD COLUMN rate_limit int CONSTRAINT endpoints_rate_limit CHECK (rate_limit BETWEEN 1 AND 1000);

-- The line in front of each endpoint with a limit: instants at which attempts may start are given out here, so that
-- workers keep to it together. Unix milliseconds, with fractions: a thousand per second add up.
CREATE TABLE endpoint_lines (
  endpoint_id     text COLLATE "C" PRIMARY KEY REFERENCES endpoints ON DELETE CASCADE,
  -- The limit that the instants were given out by.
  rate_limit      int NOT NULL,
  -- The next one that is free.
  free_at_ms      double precision NOT NULL,
  -- The same for those that missed theirs.
  late_free_at_ms double precision NOT NULL
) WITH (fillfactor = 50);
GRANT SELECT, INSERT, UPDATE, DELETE ON endpoint_lines TO signet_worker;
