-- Creates the indexes that prune-visibility-indexes.sql has dropped or replaced, as they were. It may run repeatedly, also
-- after an interruption, and needs psql. Writes continue meanwhile.
\set ON_ERROR_STOP on
SELECT to_regclass('signet_pruned_indexes') IS NOT NULL AS pruned \gset
\if :pruned
  -- An interrupted CREATE INDEX CONCURRENTLY leaves an invalid index.
  SELECT format('DROP INDEX %s', indexrelid::regclass)
  FROM pg_index JOIN signet_pruned_indexes ON indexrelid = to_regclass(name)
  WHERE NOT indisvalid OR pg_get_indexdef(indexrelid) <> definition \gexec
  SELECT regexp_replace(definition, '^CREATE INDEX ', 'CREATE INDEX CONCURRENTLY IF NOT EXISTS ')
  FROM signet_pruned_indexes ORDER BY name \gexec
  DROP TABLE signet_pruned_indexes;
\endif
