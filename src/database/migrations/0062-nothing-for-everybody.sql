-- PostgreSQL lets everybody execute a new function. Anyone who could log in could attach a trigger's function that runs as
-- its owner to a temporary table, and so revoke credentials, or move the head of the revocations.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC;
ALTER DEFAULT PRIVILEGES REVOKE ALL ON FUNCTIONS FROM PUBLIC;

-- What statements, policies and the bodies of triggers call. Triggers themselves need no right.
GRANT EXECUTE ON FUNCTION current_tenant() TO signet_api;
GRANT EXECUTE ON FUNCTION is_erased(text) TO signet_worker;
GRANT EXECUTE ON FUNCTION id_hour(text) TO signet_api, signet_ingest, signet_worker;
GRANT EXECUTE ON FUNCTION metadata_matches(text, jsonb) TO signet_api, signet_operator;
GRANT EXECUTE ON FUNCTION revocation_line(bigint, text, text, timestamptz, bigint) TO signet_edge;
