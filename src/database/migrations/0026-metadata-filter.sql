-- Lists of endpoints and deliveries by what endpoints' metadata hold. Metadata are kept as the tenant wrote them, and may
-- hold what PostgreSQL cannot show as text (an escaped NUL, half of a surrogate pair): then they match nothing.
CREATE FUNCTION metadata_matches(metadata text, wanted jsonb) RETURNS boolean
  LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN metadata IS NOT NULL AND NOT EXISTS (
    SELECT FROM jsonb_each_text(wanted) AS pair
    WHERE metadata::json ->> pair.key IS DISTINCT FROM pair.value
  );
EXCEPTION
  WHEN untranslatable_character OR invalid_text_representation THEN
    RETURN false;
END $$;
