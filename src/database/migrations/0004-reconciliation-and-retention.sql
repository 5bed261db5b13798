-- Deliveries that should have been attempted and were not, and the end of old days.

-- What the reconciler looks through: carried, and due.
CREATE INDEX deliveries_carried_due ON deliveries (next_attempt_at) WHERE carrier IS NOT NULL AND state = 'RETRYING';

-- Drops the partitions of one day. What is still open moves to the default partitions first: deliveries that wait, retry
-- or can be replayed, with their events and attempts. Runs as its owner, in the caller's transaction; a lock that is not
-- to be had within two seconds ends it, and the next run tries again. Row-level security binds the owner as well, so the
-- default partitions are named themselves.
CREATE FUNCTION drop_day_partitions(old_day date, at timestamptz) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
  suffix text := to_char(old_day, 'YYYYMMDD');
  parent text;
BEGIN
  IF to_regclass('public.deliveries_' || suffix) IS NULL THEN
    RETURN false;
  END IF;
  FOREACH parent IN ARRAY ARRAY['attempts', 'deliveries', 'events'] LOOP
    EXECUTE format('ALTER TABLE public.%I DETACH PARTITION public.%I', parent, parent || '_' || suffix);
  END LOOP;
  EXECUTE format(
    'CREATE TEMP TABLE signet_open ON COMMIT DROP AS SELECT id, event_id FROM public.%I
       WHERE state IN (''QUEUED'', ''RETRYING'') OR (state = ''DEAD_LETTERED'' AND expires_at > $1)',
    'deliveries_' || suffix
  ) USING at;
  EXECUTE format('INSERT INTO public.events_default SELECT * FROM public.%I WHERE id IN (SELECT event_id FROM pg_temp.signet_open)',
    'events_' || suffix);
  EXECUTE format('INSERT INTO public.deliveries_default SELECT * FROM public.%I WHERE id IN (SELECT id FROM pg_temp.signet_open)',
    'deliveries_' || suffix);
  EXECUTE format('INSERT INTO public.attempts_default SELECT * FROM public.%I WHERE delivery_id IN (SELECT id FROM pg_temp.signet_open)',
    'attempts_' || suffix);
  DROP TABLE pg_temp.signet_open;
  FOREACH parent IN ARRAY ARRAY['attempts', 'deliveries', 'events'] LOOP
    EXECUTE format('DROP TABLE public.%I', parent || '_' || suffix);
  END LOOP;
  RETURN true;
END $$;
REVOKE ALL ON FUNCTION drop_day_partitions(date, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION drop_day_partitions(date, timestamptz) TO signet_worker;

-- The days that have partitions, oldest first.
CREATE FUNCTION partition_days() RETURNS SETOF date LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT to_date(right(c.relname, 8), 'YYYYMMDD') FROM pg_inherits i
  JOIN pg_class c ON c.oid = i.inhrelid
  WHERE i.inhparent = 'public.deliveries'::regclass AND c.relname ~ '^deliveries_\d{8}$' ORDER BY 1
$$;
REVOKE ALL ON FUNCTION partition_days() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION partition_days() TO signet_worker;

-- What lies in the default partitions and is over: few rows, since only what was open on its last day gets there.
CREATE FUNCTION purge_default_partitions(before date, most int) RETURNS int
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  gone int;
BEGIN
  WITH over AS (
    SELECT day, id FROM public.deliveries_default
    WHERE day < before AND state IN ('DELIVERED', 'EXPIRED', 'CANCELLED') LIMIT most
  ), attempts_gone AS (
    DELETE FROM public.attempts_default a USING over WHERE a.day = over.day AND a.delivery_id = over.id
  )
  DELETE FROM public.deliveries_default d USING over WHERE d.day = over.day AND d.id = over.id;
  GET DIAGNOSTICS gone = ROW_COUNT;
  DELETE FROM public.events_default e WHERE e.day < before
    AND NOT EXISTS (SELECT FROM public.deliveries_default d WHERE d.day = e.day AND d.event_id = e.id);
  RETURN gone;
END $$;
REVOKE ALL ON FUNCTION purge_default_partitions(date, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION purge_default_partitions(date, int) TO signet_worker;

GRANT SELECT (tenant_id, route, key, created_at), DELETE ON idempotency_keys TO signet_worker;
CREATE POLICY worker_rows ON idempotency_keys TO signet_worker USING (true);
