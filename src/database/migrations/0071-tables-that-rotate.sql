-- Keys that live for a day go with their table, so no row is deleted. The open table takes new keys. When it is rotated, an
-- empty one takes its place and its name. The closed one goes on as a child, so every statement still reads its keys. A day
-- later it is dropped. Its name ends with the instant of its closing. No row is copied, and ON CONFLICT stays as it was.

-- A table that refers to tenants could only be dropped while nobody reads tenants. Keys are written for known tenants.
ALTER TABLE idempotency_keys DROP CONSTRAINT idempotency_keys_tenant_id_fkey;

-- The closed tables of a table, oldest first.
CREATE FUNCTION closed_tables(parent text) RETURNS TABLE (name text, closed_at timestamptz)
  LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT relname, to_timestamp(right(relname, 15), 'YYYYMMDD"t"HH24MISS')::timestamp AT TIME ZONE 'UTC' FROM pg_class
  WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname ~ ('^' || parent || '_\d{8}t\d{6}$') ORDER BY relname
$$;
REVOKE ALL ON FUNCTION closed_tables(text) FROM PUBLIC;

-- Closes the open table if it is older than `max_age` or larger than `max_bytes`, and puts an empty one in its place. Never
-- within `max_age` of this migration: older processes do not read closed tables for every key. Returns whether it did.
-- Publishers wait at most 100 ms for it.
CREATE FUNCTION rotate_table(parent text, at timestamptz, max_age interval, max_bytes bigint) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET TimeZone = 'UTC' SET lock_timeout = '5s' AS $$
DECLARE
  fresh text := parent || '_next';
  closed text := parent || '_' || to_char(at, 'YYYYMMDD"t"HH24MISS');
  key text := parent || '_pkey';
  newest timestamptz;
  each record;
BEGIN
  IF parent NOT IN ('idempotency_keys', 'idempotent_answers') THEN
    RAISE EXCEPTION '% does not rotate', parent USING ERRCODE = 'invalid_parameter_value';
  END IF;
  -- Two workers take turns, and an autovacuum ends after a second. Stops neither readers nor writers.
  EXECUTE format('LOCK TABLE ONLY public.%I IN SHARE UPDATE EXCLUSIVE MODE', parent);
  SELECT max(closed_at) INTO newest FROM public.closed_tables(parent);
  IF at < coalesce(newest, (SELECT applied_at FROM public.schema_migrations WHERE version = 73)) + max_age
    AND (newest IS NULL OR pg_relation_size(format('public.%I', parent)) < max_bytes) OR at < newest + interval '1 second' THEN
    RETURN false;
  END IF;

  EXECUTE format('CREATE TABLE public.%I (LIKE public.%I INCLUDING ALL EXCLUDING INDEXES)', fresh, parent);
  EXECUTE (SELECT format('ALTER TABLE public.%I ADD %s', fresh, pg_get_constraintdef(oid)) FROM pg_constraint
    WHERE conname = key AND conrelid = format('public.%I', parent)::regclass);
  -- Nobody's rows, which ended long ago: PostgreSQL would plan to read an empty table as a whole, and keep the plan.
  EXECUTE format('INSERT INTO public.%I SELECT (jsonb_populate_record(NULL::public.%I, jsonb_build_object(
      ''tenant_id'', '''', ''owner_id'', '''', ''route'', repeat(''-'', 40), ''key'', n, ''key_digest'', n, ''body_hash'', '''', ''resource_id'', '''',
      ''created_at'', to_timestamp(0)))).* FROM generate_series(1, 1000) AS n', fresh, fresh);
  EXECUTE format('ANALYZE public.%I', fresh);
  EXECUTE format('ALTER TABLE public.%I ENABLE ROW LEVEL SECURITY', fresh);
  EXECUTE format('ALTER TABLE public.%I FORCE ROW LEVEL SECURITY', fresh);
  FOR each IN SELECT * FROM pg_policies WHERE schemaname = 'public' AND tablename = parent LOOP
    EXECUTE format('CREATE POLICY %I ON public.%I AS %s FOR %s TO %s', each.policyname, fresh, each.permissive, each.cmd,
      (SELECT string_agg(quote_ident(role), ', ') FROM unnest(each.roles) AS role))
      || coalesce(' USING (' || each.qual || ')', '') || coalesce(' WITH CHECK (' || each.with_check || ')', '');
  END LOOP;

  PERFORM set_config('lock_timeout', '100ms', true);
  EXECUTE format('LOCK TABLE ONLY public.%I IN ACCESS EXCLUSIVE MODE', parent);
  -- Rights go to the open table. Only the backup reads closed ones by themselves.
  FOR each IN
    SELECT acl.privilege_type || coalesce(' (' || quote_ident(attname) || ')', '') AS privilege, acl.grantee::regrole AS role
    FROM (SELECT relacl, NULL::name AS attname FROM pg_class WHERE oid = format('public.%I', parent)::regclass
      UNION ALL SELECT attacl, attname FROM pg_attribute WHERE attrelid = format('public.%I', parent)::regclass) AS a
    CROSS JOIN LATERAL aclexplode(relacl) AS acl WHERE acl.grantee <> current_user::regrole
  LOOP
    EXECUTE format('GRANT %s ON public.%I TO %s', each.privilege, fresh, each.role);
    IF each.role::text <> 'signet_backup' THEN
      EXECUTE format('REVOKE ALL ON public.%I FROM %s', parent, each.role);
    END IF;
  END LOOP;
  EXECUTE format('ALTER TABLE public.%I RENAME CONSTRAINT %I TO %I', parent, key, closed || '_pkey');
  EXECUTE format('ALTER TABLE public.%I RENAME TO %I', parent, closed);
  EXECUTE format('ALTER TABLE public.%I RENAME CONSTRAINT %I TO %I', fresh, fresh || '_pkey', key);
  EXECUTE format('ALTER TABLE public.%I RENAME TO %I', fresh, parent);
  -- Its own children stay with it, so the oldest table is the last of a chain.
  EXECUTE format('ALTER TABLE public.%I INHERIT public.%I', closed, parent);
  RETURN true;
END $$;
REVOKE ALL ON FUNCTION rotate_table(text, timestamptz, interval, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rotate_table(text, timestamptz, interval, bigint) TO signet_worker;

-- Drops the oldest table that was closed before an instant. Returns its name, or null. The files go after the locks.
CREATE FUNCTION drop_closed_table(parent text, before timestamptz) RETURNS text
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
  oldest text := (SELECT name FROM public.closed_tables(parent) WHERE closed_at < before LIMIT 1);
BEGIN
  IF oldest IS NOT NULL THEN
    EXECUTE format('LOCK TABLE ONLY public.%I IN SHARE UPDATE EXCLUSIVE MODE', oldest);
    PERFORM set_config('lock_timeout', '100ms', true);
    EXECUTE format('DROP TABLE public.%I', oldest);
  END IF;
  RETURN oldest;
END $$;
REVOKE ALL ON FUNCTION drop_closed_table(text, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION drop_closed_table(text, timestamptz) TO signet_worker;
