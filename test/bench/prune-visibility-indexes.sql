-- Drops 45 of the 74 indexes that Temporal 1.32 has on its visibility table (PostgreSQL, schema v1.14): those on columns
-- that Signet neither fills nor searches. Every workflow writes its row, and so every index, two or three times.
-- Without them, PostgreSQL uses a fifth less CPU (docs/benchmarks.md).
--
-- The indexes of the primary key, Temporal's own columns (times, ids, type, status, sizes, parents), schedules, batch
-- jobs, reported problems, TemporalChangeVersion, and Signet's six search attributes remain. Queries by other columns
-- still work, without an index.
--
--   psql "$VISIBILITY_DATABASE_URL" --file prune-visibility-indexes.sql
--
-- Undo it with restore-visibility-indexes.sql before you upgrade Temporal's schema, because its scripts may expect
-- these indexes. Each statement locks the table briefly.

-- Predefined columns that Signet neither writes nor searches: worker versioning, checksums, external payloads.
DROP INDEX IF EXISTS by_binary_checksums;
DROP INDEX IF EXISTS by_build_ids;
DROP INDEX IF EXISTS by_temporal_worker_deployment_version;
DROP INDEX IF EXISTS by_temporal_workflow_versioning_behavior;
DROP INDEX IF EXISTS by_temporal_worker_deployment;
DROP INDEX IF EXISTS by_used_deployment_versions;
DROP INDEX IF EXISTS by_temporal_external_payload_size_bytes;
DROP INDEX IF EXISTS by_temporal_external_payload_count;

-- Columns for custom search attributes. In use: KeywordList01-03 (SignetTenant, SignetEndpoint, SignetDelivery),
-- Keyword01 (SignetState), Int01-02 (SignetOpen, SignetAttempt).
DROP INDEX IF EXISTS by_bool_01;
DROP INDEX IF EXISTS by_bool_02;
DROP INDEX IF EXISTS by_bool_03;
DROP INDEX IF EXISTS by_datetime_01;
DROP INDEX IF EXISTS by_datetime_02;
DROP INDEX IF EXISTS by_datetime_03;
DROP INDEX IF EXISTS by_double_01;
DROP INDEX IF EXISTS by_double_02;
DROP INDEX IF EXISTS by_double_03;
DROP INDEX IF EXISTS by_int_03;
DROP INDEX IF EXISTS by_keyword_02;
DROP INDEX IF EXISTS by_keyword_03;
DROP INDEX IF EXISTS by_keyword_04;
DROP INDEX IF EXISTS by_keyword_05;
DROP INDEX IF EXISTS by_keyword_06;
DROP INDEX IF EXISTS by_keyword_07;
DROP INDEX IF EXISTS by_keyword_08;
DROP INDEX IF EXISTS by_keyword_09;
DROP INDEX IF EXISTS by_keyword_10;
DROP INDEX IF EXISTS by_text_01;
DROP INDEX IF EXISTS by_text_02;
DROP INDEX IF EXISTS by_text_03;

-- Columns of Temporal's own components that are not workflows.
DROP INDEX IF EXISTS by_temporal_bool_01;
DROP INDEX IF EXISTS by_temporal_bool_02;
DROP INDEX IF EXISTS by_temporal_datetime_01;
DROP INDEX IF EXISTS by_temporal_datetime_02;
DROP INDEX IF EXISTS by_temporal_double_01;
DROP INDEX IF EXISTS by_temporal_double_02;
DROP INDEX IF EXISTS by_temporal_int_01;
DROP INDEX IF EXISTS by_temporal_int_02;
DROP INDEX IF EXISTS by_temporal_keyword_01;
DROP INDEX IF EXISTS by_temporal_keyword_02;
DROP INDEX IF EXISTS by_temporal_keyword_03;
DROP INDEX IF EXISTS by_temporal_keyword_04;
DROP INDEX IF EXISTS by_temporal_low_cardinality_keyword_01;
DROP INDEX IF EXISTS by_temporal_keyword_list_01;
DROP INDEX IF EXISTS by_temporal_keyword_list_02;
