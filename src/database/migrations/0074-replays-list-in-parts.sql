-- What a replay of dead letters has still to list: its filter, and the last letter that was compared. Null once every letter
-- is an item.
ALTER TABLE replay_jobs ADD COLUMN listing jsonb;
-- Workers of 0.3.0 would complete the job with the items that are listed so far. Their page fails and is repeated.
ALTER TABLE replay_jobs ADD CONSTRAINT replay_jobs_listed CHECK (listing IS NULL OR state <> 'COMPLETED') NOT VALID;
GRANT UPDATE (listing) ON replay_jobs TO signet_api;
GRANT UPDATE (listing, total) ON replay_jobs TO signet_worker;
GRANT INSERT ON replay_items TO signet_worker;
GRANT EXECUTE ON FUNCTION metadata_matches(text, jsonb) TO signet_worker;
