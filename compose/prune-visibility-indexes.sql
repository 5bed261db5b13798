-- Drops the indexes of Temporal's visibility table (PostgreSQL) on columns that Signet neither fills nor searches: 45 of
-- the 74 of schema 1.14. Every workflow writes its row, and so every index, two or three times. Without them, PostgreSQL
-- uses a fifth less CPU (docs/operations.md). It may run repeatedly. Queries by these columns still work, without an index.
--
-- restore-visibility-indexes.sql undoes it from the table that this script fills.

CREATE TABLE IF NOT EXISTS signet_pruned_indexes (name text PRIMARY KEY, definition text NOT NULL);

DO $$
DECLARE
  dropped record;
BEGIN
  FOR dropped IN
    SELECT indexname AS name, indexdef AS definition FROM pg_indexes
    WHERE schemaname = current_schema() AND tablename = 'executions_visibility' AND indexname = ANY (ARRAY[
      -- Predefined columns: worker versioning, checksums, external payloads.
      'by_binary_checksums', 'by_build_ids', 'by_temporal_worker_deployment_version', 'by_temporal_worker_deployment',
      'by_temporal_workflow_versioning_behavior', 'by_used_deployment_versions',
      'by_temporal_external_payload_size_bytes', 'by_temporal_external_payload_count',
      -- Columns of custom search attributes. In use: KeywordList01-03 (SignetTenant, SignetEndpoint, SignetDelivery),
      -- Keyword01 (SignetState), Int01-02 (SignetOpen, SignetAttempt).
      'by_bool_01', 'by_bool_02', 'by_bool_03', 'by_datetime_01', 'by_datetime_02', 'by_datetime_03',
      'by_double_01', 'by_double_02', 'by_double_03', 'by_int_03', 'by_keyword_02', 'by_keyword_03', 'by_keyword_04',
      'by_keyword_05', 'by_keyword_06', 'by_keyword_07', 'by_keyword_08', 'by_keyword_09', 'by_keyword_10',
      'by_text_01', 'by_text_02', 'by_text_03',
      -- Columns of Temporal's own components that are not workflows.
      'by_temporal_bool_01', 'by_temporal_bool_02', 'by_temporal_datetime_01', 'by_temporal_datetime_02',
      'by_temporal_double_01', 'by_temporal_double_02', 'by_temporal_int_01', 'by_temporal_int_02',
      'by_temporal_keyword_01', 'by_temporal_keyword_02', 'by_temporal_keyword_03', 'by_temporal_keyword_04',
      'by_temporal_low_cardinality_keyword_01', 'by_temporal_keyword_list_01', 'by_temporal_keyword_list_02'
    ])
  LOOP
    INSERT INTO signet_pruned_indexes VALUES (dropped.name, dropped.definition)
      ON CONFLICT (name) DO UPDATE SET definition = EXCLUDED.definition;
    EXECUTE format('DROP INDEX %I', dropped.name);
  END LOOP;
END
$$;
