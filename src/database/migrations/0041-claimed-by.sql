-- Who holds the claim of a delivery: its deliveries go back to the outbox as soon as that worker is known to have ended.
-- Null where an earlier version claimed it; there, the timeouts of Temporal decide.
ALTER TABLE deliveries ADD COLUMN claimed_by text COLLATE "C";
