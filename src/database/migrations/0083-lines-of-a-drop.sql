-- A drop takes lines off their table up to a number. It joined the table with the lines that come first, and compared
-- each with each while PostgreSQL believed the table to be empty, as after most days: with 20,000 open rows, a thousand
-- lines took longer than a statement may. The rest of the function is that of migration 0072.
CREATE OR REPLACE FUNCTION copy_open_rows(old_day date, most int) RETURNS int
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
  suffix text := to_char(old_day, '_YYYYMMDD') || '_next';
  events_of text := public.day_partition('events', old_day);
  deliveries_of text := public.day_partition('deliveries', old_day);
  attempts_of text := public.day_partition('attempts', old_day);
  lines int;
  ids text[];
  open_ids text[];
  event_ids text[];
BEGIN
  EXECUTE format('LOCK TABLE public.%I IN SHARE ROW EXCLUSIVE MODE', 'deliveries' || suffix);
  WITH taken AS (
    DELETE FROM public.day_drop_lines WHERE day = old_day AND seq <= (SELECT max(seq) FROM (
      SELECT seq FROM public.day_drop_lines WHERE day = old_day ORDER BY seq LIMIT most
    ) first) RETURNING id
  ) SELECT count(*), array_agg(DISTINCT id) INTO lines, ids FROM taken;
  IF lines = 0 THEN
    RETURN 0;
  END IF;
  -- Each statement sees what was committed before it, so none copies a row as it was before its line.
  EXECUTE format('DELETE FROM public.%I WHERE day = $1 AND delivery_id = ANY ($2)', 'attempts' || suffix) USING old_day, ids;
  EXECUTE format('DELETE FROM public.%I WHERE day = $1 AND id = ANY ($2)', 'deliveries' || suffix) USING old_day, ids;
  EXECUTE format('WITH copied AS (
      INSERT INTO public.%I SELECT * FROM public.%I WHERE day = $1 AND id = ANY ($2)
        AND state IN (''QUEUED'', ''RETRYING'', ''DEAD_LETTERED'') RETURNING id, event_id
    ) SELECT array_agg(id), array_agg(event_id) FROM copied', 'deliveries' || suffix, deliveries_of)
    INTO open_ids, event_ids USING old_day, ids;
  EXECUTE format('INSERT INTO public.%I SELECT * FROM public.%I WHERE day = $1 AND delivery_id = ANY ($2)',
    'attempts' || suffix, attempts_of) USING old_day, open_ids;
  EXECUTE format('WITH old AS (DELETE FROM public.%I WHERE day = $1 AND id = ANY ($2) RETURNING id)
      SELECT array_agg(id) || $3 FROM old', 'events' || suffix) INTO event_ids USING old_day, ids, event_ids;
  EXECUTE format('INSERT INTO public.%I SELECT * FROM public.%I WHERE day = $1 AND id = ANY ($2) ON CONFLICT DO NOTHING',
    'events' || suffix, events_of) USING old_day, event_ids;
  RETURN lines;
END $$;
