-- A receiver that answers 410 Gone wants no more deliveries.
ALTER TABLE endpoints DROP CONSTRAINT endpoints_disabled_reason,
  ADD CONSTRAINT endpoints_disabled_reason CHECK (disabled_reason IN ('tenant', 'failing', 'gone'))
    NOT VALID; -- Migration 0059 validates it, without stopping anything.
