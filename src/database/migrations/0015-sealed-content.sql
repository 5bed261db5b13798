-- The content of events is sealed under a key of the event's own (docs/decisions/0014-sealed-content.md), so that it can be
-- destroyed. Events from before keep their text until retention or an erasure takes it.

ALTER TABLE events
  ALTER COLUMN data DROP NOT NULL,
  -- Version, salt of the key, ciphertext of `data`, tag. NULL once it is erased.
  ADD COLUMN content bytea,
  ADD COLUMN content_erased_at timestamptz;
-- Noise does not compress.
ALTER TABLE events ALTER COLUMN content SET STORAGE EXTERNAL;

-- What the receiver answered, under the key of its event.
ALTER TABLE attempts ADD COLUMN response bytea;
ALTER TABLE attempts ALTER COLUMN response SET STORAGE EXTERNAL;

ALTER TABLE deliveries DROP CONSTRAINT deliveries_reason;
ALTER TABLE deliveries ADD CONSTRAINT deliveries_reason
  CHECK (reason IN ('attempts_exhausted', 'endpoint_disabled', 'content_erased'));

-- Ingest seals; the key is wrapped, and opens nothing by itself.
GRANT SELECT (data_key) ON tenants TO signet_ingest;

-- A tenant erases what its events hold, and the answers to them.
GRANT UPDATE (data, content, content_erased_at) ON events TO signet_api;
GRANT UPDATE (response_body, response) ON attempts TO signet_api;
