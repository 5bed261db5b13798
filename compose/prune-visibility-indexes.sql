-- Drops 32 of the 74 indexes of Temporal's visibility table (PostgreSQL, schema 1.14): those on columns that Signet
-- neither fills nor searches. Replaces 16 by partial indexes without NULL. Every workflow writes its row, and so every
-- index, two or three times; now PostgreSQL uses a fifth less CPU (docs/operations.md). It may run repeatedly. Searches by
-- the columns without an index still work.
--
-- restore-visibility-indexes.sql undoes it from the table that this script fills.

CREATE TABLE IF NOT EXISTS signet_pruned_indexes (name text PRIMARY KEY, definition text NOT NULL);

DO $$
DECLARE
  pruned record;
BEGIN
  FOR pruned IN
    SELECT indexname AS name, indexdef AS definition,
      -- Temporal assigns search attributes of these types (SignetState, SignetOpen, SignetExpires) to any free column,
      -- at random. NULL fills the other columns. No search asks for it, and a partial index costs nothing then.
      CASE WHEN indexname ~ '^by_(keyword|int|datetime)_\d\d$' THEN replace(substr(indexname, 4), '_', '') END AS partial_by
    FROM pg_indexes
    WHERE schemaname = current_schema() AND tablename = 'executions_visibility' AND (
      indexname ~ '^by_(keyword|int|datetime)_\d\d$' AND indexdef NOT LIKE '% WHERE %'
      OR indexname = ANY (ARRAY[
        -- Predefined columns: worker versioning, checksums, external payloads.
        'by_binary_checksums', 'by_build_ids', 'by_temporal_worker_deployment_version',
        'by_temporal_worker_deployment', 'by_temporal_workflow_versioning_behavior', 'by_used_deployment_versions',
        'by_temporal_external_payload_size_bytes', 'by_temporal_external_payload_count',
        -- Columns of custom search attributes of types that Signet does not use. KeywordList01-03 are all in use.
        'by_bool_01', 'by_bool_02', 'by_bool_03',
        'by_double_01', 'by_double_02', 'by_double_03', 'by_text_01', 'by_text_02', 'by_text_03',
        -- Columns of Temporal's own components that are not workflows.
        'by_temporal_bool_01', 'by_temporal_bool_02', 'by_temporal_datetime_01', 'by_temporal_datetime_02',
        'by_temporal_double_01', 'by_temporal_double_02', 'by_temporal_int_01', 'by_temporal_int_02',
        'by_temporal_keyword_01', 'by_temporal_keyword_02', 'by_temporal_keyword_03', 'by_temporal_keyword_04',
        'by_temporal_low_cardinality_keyword_01', 'by_temporal_keyword_list_01', 'by_temporal_keyword_list_02'
      ])
    )
  LOOP
    INSERT INTO signet_pruned_indexes VALUES (pruned.name, pruned.definition)
      ON CONFLICT (name) DO UPDATE SET definition = EXCLUDED.definition;
    EXECUTE format('DROP INDEX %I', pruned.name);
    IF pruned.partial_by IS NOT NULL THEN
      EXECUTE format('%s WHERE %I IS NOT NULL', pruned.definition, pruned.partial_by);
    END IF;
  END LOOP;
  -- 0.3.0 dropped those of SignetExpires.
  FOR pruned IN
    SELECT definition, replace(substr(name, 4), '_', '') AS partial_by
    FROM signet_pruned_indexes WHERE name ~ '^by_datetime_\d\d$' AND to_regclass(name) IS NULL
  LOOP
    EXECUTE format('%s WHERE %I IS NOT NULL', pruned.definition, pruned.partial_by);
  END LOOP;
END
$$;
