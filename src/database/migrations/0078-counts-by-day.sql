-- Counts by the day of their hour (decision 41). A day is dropped as a whole, so no row is deleted. What is stored already
-- becomes the first partition as it is. There is no default partition: attaching a day stops nobody. A line of a day
-- without a partition is folded after the worker has made one.
ALTER TABLE delivery_counts RENAME TO delivery_counts_stored;
ALTER TABLE delivery_counts_stored RENAME CONSTRAINT delivery_counts_pkey TO delivery_counts_stored_pkey;
ALTER INDEX delivery_counts_by_hour RENAME TO delivery_counts_stored_hour_idx;
CREATE TABLE delivery_counts (LIKE delivery_counts_stored, PRIMARY KEY (tenant_id, hour, endpoint_id, event_type))
  PARTITION BY RANGE (hour);
CREATE INDEX delivery_counts_by_hour ON delivery_counts (hour);
DO $$
DECLARE
  until timestamptz := (SELECT (regexp_match(pg_get_constraintdef(oid), '''(.*)'''))[1] FROM pg_constraint
    WHERE conname = 'delivery_counts_until');
  stored text := 'delivery_counts_until_' || to_char(until, 'YYYYMMDD');
BEGIN
  EXECUTE format('ALTER TABLE delivery_counts_stored RENAME TO %I', stored);
  EXECUTE format('ALTER TABLE delivery_counts ATTACH PARTITION %I FOR VALUES FROM (MINVALUE) TO (%L)', stored, until);
  EXECUTE format('ALTER TABLE %I DROP CONSTRAINT delivery_counts_until', stored);
  EXECUTE format('REVOKE ALL ON %I FROM signet_api, signet_operator, signet_worker', stored);
END $$;

ALTER TABLE delivery_counts ENABLE ROW LEVEL SECURITY;
ALTER TABLE delivery_counts FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON delivery_counts FOR SELECT TO signet_api USING (tenant_id = current_tenant());
CREATE POLICY operator_rows ON delivery_counts FOR SELECT TO signet_operator USING (true);
CREATE POLICY worker_reads ON delivery_counts FOR SELECT TO signet_worker USING (true);
CREATE POLICY worker_adds ON delivery_counts FOR INSERT TO signet_worker WITH CHECK (true);
CREATE POLICY worker_counts ON delivery_counts FOR UPDATE TO signet_worker USING (true);
-- Nothing else: older workers delete rows by their places, which are those of other rows in other partitions.
CREATE POLICY worker_erases ON delivery_counts FOR DELETE TO signet_worker
  USING (EXISTS (SELECT FROM tenants t WHERE t.id = tenant_id AND t.state = 'ERASED'));
GRANT SELECT ON delivery_counts TO signet_api, signet_operator;
GRANT SELECT, INSERT, UPDATE, DELETE ON delivery_counts TO signet_worker;

-- The partitions, by their names: of a day, or of all hours before a day.
CREATE FUNCTION count_partitions() RETURNS TABLE (name text, begins timestamptz, ends timestamptz)
  LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET TimeZone = 'UTC' AS $$
  SELECT c.relname, CASE WHEN c.relname ~ '_until_' THEN '-infinity'::timestamptz ELSE d.day::timestamptz END,
    CASE WHEN c.relname ~ '_until_' THEN d.day::timestamptz ELSE (d.day + 1)::timestamptz END
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
  CROSS JOIN LATERAL (SELECT to_date(right(c.relname, 8), 'YYYYMMDD') AS day) d
  WHERE i.inhparent = 'public.delivery_counts'::regclass
$$;
REVOKE ALL ON FUNCTION count_partitions() FROM PUBLIC;

-- Makes the partitions of days that have none. Returns their number. Stops nobody but others that make one.
CREATE FUNCTION ensure_count_days(days date[]) RETURNS int
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET TimeZone = 'UTC' SET lock_timeout = '5s' AS $$
DECLARE
  first date;
  part text;
  made int := 0;
BEGIN
  LOCK TABLE ONLY public.delivery_counts IN SHARE UPDATE EXCLUSIVE MODE;
  FOR first IN SELECT DISTINCT day FROM unnest(days) AS day LOOP
    CONTINUE WHEN EXISTS (SELECT FROM public.count_partitions() p WHERE p.begins <= first AND p.ends > first);
    part := 'delivery_counts_' || to_char(first, 'YYYYMMDD');
    EXECUTE format('CREATE TABLE public.%I (LIKE public.delivery_counts INCLUDING ALL) WITH (fillfactor = 70)', part);
    EXECUTE format('ALTER TABLE public.delivery_counts ATTACH PARTITION public.%I FOR VALUES FROM (%L) TO (%L)',
      part, first, first + 1);
    made := made + 1;
  END LOOP;
  RETURN made;
END $$;
REVOKE ALL ON FUNCTION ensure_count_days(date[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ensure_count_days(date[]) TO signet_worker;

-- Drops the oldest partition whose hours are all before an instant. Returns its name, or null. Readers and the fold wait for
-- 80 ms at most. The files go after the locks.
CREATE FUNCTION drop_counts(before timestamptz) RETURNS text
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
  oldest text := (SELECT name FROM public.count_partitions() WHERE ends <= before ORDER BY ends LIMIT 1);
BEGIN
  IF oldest IS NOT NULL THEN
    EXECUTE format('LOCK TABLE ONLY public.%I IN SHARE UPDATE EXCLUSIVE MODE', oldest);
    PERFORM set_config('lock_timeout', '80ms', true);
    EXECUTE format('DROP TABLE public.%I', oldest);
  END IF;
  RETURN oldest;
END $$;
REVOKE ALL ON FUNCTION drop_counts(timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION drop_counts(timestamptz) TO signet_worker;
