-- The function of migration 0026 without a subtransaction, which PostgreSQL 15 and 16 refuse in a parallel plan. A list
-- filtered by metadata failed as soon as the tenant had enough deliveries for one.
CREATE OR REPLACE FUNCTION metadata_matches(metadata text, wanted jsonb) RETURNS boolean
  LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  -- Without escaped backslashes and whole surrogate pairs, each remaining \u0000 or surrogate has no text.
  escapes text := regexp_replace(replace(metadata, '\\', ' '), '\\u[dD][89abAB]..\\u[dD][c-fC-F]..', ' ', 'g');
BEGIN
  IF metadata IS NULL OR escapes ~ '\\u(0000|[dD][89a-fA-F])' THEN
    RETURN false;
  END IF;
  RETURN NOT EXISTS (
    SELECT FROM jsonb_each_text(wanted) AS pair
    WHERE metadata::json ->> pair.key IS DISTINCT FROM pair.value
  );
END $$;
