-- The end of a day beside traffic (decision 41). What is still open is copied into tables beside the day's partitions.
-- Triggers list each row that changes meanwhile. The tables take the partitions' place in one short transaction.

-- Days that are being emptied.
CREATE TABLE day_drops (
  day          date PRIMARY KEY,
  -- Up to where day_drop_lines has the open rows: how many kinds of them, and the last row of the next kind.
  kinds        int NOT NULL DEFAULT 0,
  after_tenant text COLLATE "C" NOT NULL DEFAULT '',
  after_id     text COLLATE "C" NOT NULL DEFAULT ''
);
-- Rows of these days that are to be copied, again if they have been: ids of deliveries and events.
CREATE TABLE day_drop_lines (
  day date NOT NULL,
  seq bigint GENERATED ALWAYS AS IDENTITY,
  id  text COLLATE "C" NOT NULL,
  PRIMARY KEY (day, seq)
);
ALTER TABLE day_drops ENABLE ROW LEVEL SECURITY;
ALTER TABLE day_drops FORCE ROW LEVEL SECURITY;
ALTER TABLE day_drop_lines ENABLE ROW LEVEL SECURITY;
ALTER TABLE day_drop_lines FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_rows ON day_drops TO signet_owner USING (true) WITH CHECK (true);
CREATE POLICY owner_rows ON day_drop_lines TO signet_owner USING (true) WITH CHECK (true);

-- The trigger of a partition whose day is being emptied. Its argument is the column of the id.
CREATE FUNCTION list_changed_row() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  changed jsonb := to_jsonb(CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END);
BEGIN
  INSERT INTO public.day_drop_lines (day, id) VALUES ((changed ->> 'day')::date, changed ->> TG_ARGV[0]);
  RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION list_changed_row() FROM PUBLIC;

-- The name of a day's attached partition: "_kept" has only what was open. NULL if there is none.
CREATE FUNCTION day_partition(noun text, old_day date) RETURNS text
  LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
  WHERE i.inhparent = ('public.' || noun)::regclass
    AND c.relname IN (noun || to_char(old_day, '_YYYYMMDD'), noun || to_char(old_day, '_YYYYMMDD') || '_kept')
$$;
REVOKE ALL ON FUNCTION day_partition(text, date) FROM PUBLIC;

-- Begins to empty a day, or goes on. Each lock is waited for briefly, as others wait behind it. Returns false if the day
-- has no partitions, or only those of more than "few" open rows.
CREATE FUNCTION begin_day_drop(old_day date, few int) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '80ms' AS $$
DECLARE
  noun text;
  source text := public.day_partition('deliveries', old_day);
  rows_kept int;
BEGIN
  IF source IS NULL THEN
    DELETE FROM public.day_drop_lines WHERE day = old_day;
    DELETE FROM public.day_drops WHERE day = old_day;
    RETURN false;
  END IF;
  IF source LIKE '%\_kept' THEN
    EXECUTE format('SELECT count(*) FROM (SELECT FROM public.%I LIMIT $1 + 1) d', source) INTO rows_kept USING few;
    IF rows_kept > few THEN
      RETURN false;
    END IF;
  END IF;
  INSERT INTO public.day_drops (day) VALUES (old_day) ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    RETURN true;
  END IF;
  -- Nobody waits behind this lock but maintenance. After a second, PostgreSQL ends an autovacuum that has it.
  PERFORM set_config('lock_timeout', '5s', true);
  FOREACH noun IN ARRAY ARRAY['events', 'deliveries', 'attempts'] LOOP
    EXECUTE format('ALTER TABLE public.%I SET (autovacuum_enabled = false)', public.day_partition(noun, old_day));
  END LOOP;
  PERFORM set_config('lock_timeout', '80ms', true);
  FOREACH noun IN ARRAY ARRAY['events', 'deliveries', 'attempts'] LOOP
    source := public.day_partition(noun, old_day);
    EXECUTE format('CREATE TABLE public.%I (LIKE public.%I INCLUDING ALL, CONSTRAINT of_the_day CHECK (day >= %L AND day < %L))',
      noun || to_char(old_day, '_YYYYMMDD') || '_next', noun, old_day, old_day + 1);
    EXECUTE format('CREATE TRIGGER day_drop_lines AFTER INSERT OR UPDATE OR DELETE ON public.%I
      FOR EACH ROW EXECUTE FUNCTION public.list_changed_row(%L)', source,
      CASE noun WHEN 'attempts' THEN 'delivery_id' ELSE 'id' END);
  END LOOP;
  RETURN true;
END $$;
REVOKE ALL ON FUNCTION begin_day_drop(date, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION begin_day_drop(date, int) TO signet_worker;

-- Promises that the default partitions have no rows of the day, so that attaching need not look. They cannot have any
-- while the day has partitions.
CREATE FUNCTION exclude_dropped_day(old_day date) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '80ms' AS $$
DECLARE
  noun text;
BEGIN
  FOREACH noun IN ARRAY ARRAY['events', 'deliveries', 'attempts'] LOOP
    IF NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = format('public.%I', noun || '_default')::regclass
        AND conname = 'without_' || to_char(old_day, 'YYYYMMDD')) THEN
      EXECUTE format('ALTER TABLE public.%I ADD CONSTRAINT %I CHECK (day < %L OR day >= %L) NOT VALID', noun || '_default',
        'without_' || to_char(old_day, 'YYYYMMDD'), old_day, old_day + 1);
    END IF;
  END LOOP;
END $$;
REVOKE ALL ON FUNCTION exclude_dropped_day(date) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION exclude_dropped_day(date) TO signet_worker;

-- Lists open rows of a day that is being emptied, at most "most" of one kind per call. Returns false after the last. Each
-- kind is read in the order of its partial index. Takes no lock for which traffic waits.
CREATE FUNCTION list_open_rows(old_day date, most int) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
  SET lock_timeout = '5s' AS $$
DECLARE
  noun text;
  conditions text[] := ARRAY['state = ''DEAD_LETTERED''', 'state = ''RETRYING''',
    'state = ''QUEUED'' AND carrier IS NULL', 'state = ''QUEUED'' AND carrier IS NOT NULL'];
  orders text[] := ARRAY['AND (tenant_id, day, id) > ($2, $1, $3) ORDER BY tenant_id, day, id LIMIT $4',
    'AND (tenant_id, state, day, id) > ($2, ''RETRYING'', $1, $3) ORDER BY tenant_id, state, day, id LIMIT $4',
    'AND (tenant_id, id) > ($2, $3) ORDER BY tenant_id, id LIMIT $4',
    '']; -- nearly none are claimed and not attempted
  at public.day_drops;
  kind int;
  last_tenant text;
  last_id text;
  listed int;
BEGIN
  SELECT * INTO at FROM public.day_drops WHERE day = old_day FOR UPDATE;
  kind := at.kinds + 1;
  IF kind = 1 AND at.after_id = '' THEN
    FOREACH noun IN ARRAY ARRAY['events', 'deliveries', 'attempts'] LOOP
      EXECUTE format('ALTER TABLE public.%I VALIDATE CONSTRAINT %I', noun || '_default', 'without_' || to_char(old_day, 'YYYYMMDD'));
    END LOOP;
  END IF;
  IF at IS NULL OR kind > cardinality(conditions) THEN
    RETURN false;
  END IF;
  EXECUTE format('WITH found AS (
      SELECT tenant_id, id FROM public.%I WHERE day = $1 AND %s %s
    ), listed AS (
      INSERT INTO public.day_drop_lines (day, id) SELECT $1, id FROM found
    ) SELECT count(*), max(tenant_id), max(id) FILTER (WHERE tenant_id = (SELECT max(tenant_id) FROM found)) FROM found',
    public.day_partition('deliveries', old_day), conditions[kind],
    orders[kind])
    INTO listed, last_tenant, last_id USING old_day, at.after_tenant, at.after_id, most;
  IF orders[kind] = '' OR listed < most THEN
    UPDATE public.day_drops SET kinds = kind, after_tenant = '', after_id = '' WHERE day = old_day;
  ELSE
    UPDATE public.day_drops SET after_tenant = last_tenant, after_id = last_id WHERE day = old_day;
  END IF;
  RETURN true;
END $$;
REVOKE ALL ON FUNCTION list_open_rows(date, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION list_open_rows(date, int) TO signet_worker;

-- Copies the listed rows as they are now, one call at a time. Returns the number of lines.
CREATE FUNCTION copy_open_rows(old_day date, most int) RETURNS int
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
    DELETE FROM public.day_drop_lines l USING (
      SELECT day, seq FROM public.day_drop_lines WHERE day = old_day ORDER BY seq LIMIT most
    ) first WHERE l.day = first.day AND l.seq = first.seq RETURNING l.id
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
REVOKE ALL ON FUNCTION copy_open_rows(date, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION copy_open_rows(date, int) TO signet_worker;

-- Puts the copies in the place of the day's partitions, or into the default partitions if they have few rows. Returns
-- for how many milliseconds others waited, NULL if more than "most" lines are left to copy. Everything waits for this transaction, so it reads nothing else. It
-- waits for its own locks for 80 ms in all, less than PostgreSQL's check for deadlocks: it gives way, nobody else.
CREATE FUNCTION swap_day(old_day date, most int, few int) RETURNS float8
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '80ms' AS $$
DECLARE
  nouns text[] := ARRAY['events', 'deliveries', 'attempts']; -- in the order of a publish
  suffix text := to_char(old_day, '_YYYYMMDD');
  without text := 'without_' || to_char(old_day, 'YYYYMMDD');
  since timestamptz;
  noun text;
  source text;
  size int;
  rows_copied int := 0;
BEGIN
  FOREACH noun IN ARRAY nouns LOOP
    EXECUTE format('LOCK TABLE public.%I IN ACCESS EXCLUSIVE MODE', noun || suffix || '_next');
    EXECUTE format('SELECT count(*) FROM (SELECT FROM public.%I LIMIT $1 + 1) r', noun || suffix || '_next')
      INTO size USING few;
    rows_copied := rows_copied + size;
  END LOOP;
  since := clock_timestamp();
  FOREACH noun IN ARRAY nouns LOOP
    PERFORM set_config('lock_timeout',
      greatest(1, 80 - (extract(epoch FROM clock_timestamp() - since) * 1000)::int)::text, true);
    EXECUTE format('LOCK TABLE ONLY public.%I IN ACCESS EXCLUSIVE MODE', noun);
  END LOOP;
  PERFORM set_config('lock_timeout', '20ms', true);
  IF (SELECT count(*) FROM (SELECT FROM public.day_drop_lines WHERE day = old_day LIMIT most + 1) l) > most THEN
    RETURN NULL;
  END IF;
  PERFORM public.copy_open_rows(old_day, most);
  FOREACH noun IN ARRAY nouns LOOP
    source := public.day_partition(noun, old_day);
    EXECUTE format('ALTER TABLE public.%I DETACH PARTITION public.%I', noun, source);
    EXECUTE format('ALTER TABLE public.%I RENAME TO %I', source, noun || suffix || '_gone');
  END LOOP;
  -- The copies were counted when they were accepted.
  PERFORM set_config('signet.moving', 'on', true);
  FOREACH noun IN ARRAY nouns LOOP
    IF rows_copied > few THEN
      EXECUTE format('ALTER TABLE public.%I RENAME TO %I', noun || suffix || '_next', noun || suffix || '_kept');
      EXECUTE format('ALTER TABLE public.%I ATTACH PARTITION public.%I FOR VALUES FROM (%L) TO (%L)',
        noun, noun || suffix || '_kept', old_day, old_day + 1);
      EXECUTE format('ALTER TABLE public.%I DROP CONSTRAINT %I', noun || '_default', without);
    ELSE
      EXECUTE format('ALTER TABLE public.%I DROP CONSTRAINT %I', noun || '_default', without);
      EXECUTE format('INSERT INTO public.%I SELECT * FROM public.%I', noun || '_default', noun || suffix || '_next');
      EXECUTE format('DROP TABLE public.%I', noun || suffix || '_next');
    END IF;
  END LOOP;
  PERFORM set_config('signet.moving', 'off', true);
  DELETE FROM public.day_drops WHERE day = old_day;
  RETURN extract(epoch FROM clock_timestamp() - since) * 1000;
END $$;
REVOKE ALL ON FUNCTION swap_day(date, int, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION swap_day(date, int, int) TO signet_worker;

-- Drops a table that was detached. Returns its name, NULL if there is none.
CREATE FUNCTION drop_detached_table() RETURNS text
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
  gone text;
BEGIN
  SELECT relname INTO gone FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND NOT relispartition
    AND relname ~ '^(events|deliveries|attempts)_\d{8}_gone$' ORDER BY relname LIMIT 1;
  IF gone IS NOT NULL THEN
    EXECUTE format('DROP TABLE public.%I', gone);
  END IF;
  RETURN gone;
END $$;
REVOKE ALL ON FUNCTION drop_detached_table() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION drop_detached_table() TO signet_worker;

-- Workers of earlier releases leave the days to those of this one.
CREATE OR REPLACE FUNCTION drop_day_partitions(old_day date, at timestamptz) RETURNS boolean
  LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS 'SELECT false';

CREATE OR REPLACE FUNCTION partition_days() RETURNS SETOF date LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT to_date(substr(c.relname, 12, 8), 'YYYYMMDD') FROM pg_inherits i
  JOIN pg_class c ON c.oid = i.inhrelid
  WHERE i.inhparent = 'public.deliveries'::regclass AND c.relname ~ '^deliveries_\d{8}(_kept)?$' ORDER BY 1
$$;

-- The oldest day whose partitions still have all its rows, NULL if there is none.
CREATE FUNCTION oldest_whole_day() RETURNS date LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT min(to_date(right(c.relname, 8), 'YYYYMMDD')) FROM pg_inherits i
  JOIN pg_class c ON c.oid = i.inhrelid
  WHERE i.inhparent = 'public.deliveries'::regclass AND c.relname ~ '^deliveries_\d{8}$'
$$;
REVOKE ALL ON FUNCTION oldest_whole_day() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION oldest_whole_day() TO signet_worker, signet_operator;

-- As in migration 0043. A table is made first and attached then, so publishes and claims of other days go on meanwhile.
-- Only what reads the default partitions waits, for 80 ms per lock at most. A day gets all three partitions or none.
CREATE OR REPLACE FUNCTION ensure_day_partitions(first_day date, days int) RETURNS int
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '80ms' AS $$
DECLARE
  nouns text[] := ARRAY['events', 'deliveries', 'attempts']; -- in the order of a publish
  noun text;
  part text;
  first date;
  made int := 0;
  made_of_day int;
BEGIN
  IF days NOT BETWEEN 1 AND 400 THEN
    RAISE EXCEPTION 'days must be 1 to 400';
  END IF;
  FOR step IN 0 .. days - 1 LOOP
    first := first_day + step;
    made_of_day := 0;
    BEGIN
      FOREACH noun IN ARRAY nouns LOOP
        part := noun || to_char(first, '_YYYYMMDD');
        IF public.day_partition(noun, first) IS NULL THEN
          EXECUTE format('CREATE TABLE public.%I (LIKE public.%I INCLUDING ALL) WITH (fillfactor = %s)', part, noun,
            CASE noun WHEN 'deliveries' THEN 45 ELSE 100 END);
          made_of_day := made_of_day + 1;
        END IF;
      END LOOP;
      FOREACH noun IN ARRAY nouns LOOP
        part := noun || to_char(first, '_YYYYMMDD');
        IF public.day_partition(noun, first) IS NULL THEN
          EXECUTE format('ALTER TABLE public.%I ATTACH PARTITION public.%I FOR VALUES FROM (%L) TO (%L)', noun, part, first, first + 1);
        END IF;
      END LOOP;
      made := made + made_of_day;
    EXCEPTION
      WHEN duplicate_table THEN NULL; -- another worker was faster
      WHEN check_violation THEN NULL; -- rows of that day already lie in the default partition and stay there
    END;
  END LOOP;
  RETURN made;
END $$;

-- Removes what is over from the default partitions and from those of the days of which only open rows were kept.
CREATE OR REPLACE FUNCTION purge_default_partitions(before date, most int) RETURNS int
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  suffix text;
  total int := 0;
  gone int;
BEGIN
  FOR suffix IN SELECT substr(c.relname, 11) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
      WHERE i.inhparent = 'public.deliveries'::regclass AND c.relname ~ '^deliveries_(default|\d{8}_kept)$'
  LOOP
    EXECUTE format('WITH over AS (
        SELECT day, id FROM public.%1$I
        WHERE day < $1 AND state IN (''DELIVERED'', ''EXPIRED'', ''CANCELLED'') LIMIT $2
      ), attempts_gone AS (
        DELETE FROM public.%2$I a USING over WHERE a.day = over.day AND a.delivery_id = over.id
      )
      DELETE FROM public.%1$I d USING over WHERE d.day = over.day AND d.id = over.id',
      'deliveries' || suffix, 'attempts' || suffix) USING before, most - total;
    GET DIAGNOSTICS gone = ROW_COUNT;
    total := total + gone;
    EXIT WHEN total >= most;
    EXECUTE format('DELETE FROM public.%I e WHERE e.day < $1
      AND NOT EXISTS (SELECT FROM public.%I d WHERE d.day = e.day AND d.event_id = e.id)',
      'events' || suffix, 'deliveries' || suffix) USING before;
  END LOOP;
  RETURN total;
END $$;
