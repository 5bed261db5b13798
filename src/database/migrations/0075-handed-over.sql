-- An insert may claim its deliveries for a worker in the same process, and notes their lists as a claim does. It compares
-- the transactions of the rows that the worker has read, and so needs no secret and no URL.
GRANT SELECT, INSERT, UPDATE ON unstarted_lists TO signet_ingest;
GRANT SELECT (xmin) ON endpoints TO signet_ingest;
GRANT SELECT (xmin, held_at) ON tenants TO signet_ingest;
GRANT SELECT (xmin, endpoint_id, state) ON endpoint_secrets TO signet_ingest;
CREATE POLICY ingest_rows ON endpoint_secrets FOR SELECT TO signet_ingest USING (true);
