SET check_function_bodies = false;
SELECT pg_catalog.set_config('search_path', '', false);

CREATE FUNCTION public.current_tenant() RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT nullif(current_setting('app.tenant_id', true), '') $$;

ALTER FUNCTION public.current_tenant() OWNER TO signet_owner;

CREATE FUNCTION public.drop_day_partitions(old_day date, at timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '2s'
    AS $_$
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
END $_$;

ALTER FUNCTION public.drop_day_partitions(old_day date, at timestamp with time zone) OWNER TO signet_owner;

CREATE FUNCTION public.ensure_day_partitions(first_day date, days integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  parent text;
  first date;
  made int := 0;
BEGIN
  IF days NOT BETWEEN 1 AND 400 THEN
    RAISE EXCEPTION 'days must be 1 to 400';
  END IF;
  FOR step IN 0 .. days - 1 LOOP
    first := first_day + step;
    FOREACH parent IN ARRAY ARRAY['events', 'deliveries', 'attempts'] LOOP
      IF to_regclass(format('public.%I', parent || '_' || to_char(first, 'YYYYMMDD'))) IS NULL THEN
        BEGIN
          EXECUTE format(
            'CREATE TABLE public.%I PARTITION OF public.%I FOR VALUES FROM (%L) TO (%L)',
            parent || '_' || to_char(first, 'YYYYMMDD'), parent, first, first + 1
          );
          made := made + 1;
        EXCEPTION
          WHEN duplicate_table THEN NULL; -- another worker was faster
          WHEN check_violation THEN NULL; -- rows of that day already lie in the default partition and stay there
        END;
      END IF;
    END LOOP;
  END LOOP;
  RETURN made;
END $$;

ALTER FUNCTION public.ensure_day_partitions(first_day date, days integer) OWNER TO signet_owner;

CREATE FUNCTION public.partition_days() RETURNS SETOF date
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
  SELECT to_date(right(c.relname, 8), 'YYYYMMDD') FROM pg_inherits i
  JOIN pg_class c ON c.oid = i.inhrelid
  WHERE i.inhparent = 'public.deliveries'::regclass AND c.relname ~ '^deliveries_\d{8}$' ORDER BY 1
$_$;

ALTER FUNCTION public.partition_days() OWNER TO signet_owner;

CREATE FUNCTION public.purge_default_partitions(before date, most integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

ALTER FUNCTION public.purge_default_partitions(before date, most integer) OWNER TO signet_owner;

CREATE TABLE public.attempts (
    day date NOT NULL,
    delivery_id text NOT NULL COLLATE pg_catalog."C",
    cycle integer NOT NULL,
    attempt integer NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    lease_until timestamp with time zone,
    started_at timestamp with time zone NOT NULL,
    duration_ms integer,
    status integer,
    error text,
    response_body text
)
PARTITION BY RANGE (day);

ALTER TABLE ONLY public.attempts FORCE ROW LEVEL SECURITY;

ALTER TABLE public.attempts OWNER TO signet_owner;

CREATE TABLE public.attempts_20261119 (
    day date NOT NULL,
    delivery_id text NOT NULL COLLATE pg_catalog."C",
    cycle integer NOT NULL,
    attempt integer NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    lease_until timestamp with time zone,
    started_at timestamp with time zone NOT NULL,
    duration_ms integer,
    status integer,
    error text,
    response_body text
);

ALTER TABLE public.attempts_20261119 OWNER TO signet_owner;

CREATE TABLE public.attempts_20261120 (
    day date NOT NULL,
    delivery_id text NOT NULL COLLATE pg_catalog."C",
    cycle integer NOT NULL,
    attempt integer NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    lease_until timestamp with time zone,
    started_at timestamp with time zone NOT NULL,
    duration_ms integer,
    status integer,
    error text,
    response_body text
);

ALTER TABLE public.attempts_20261120 OWNER TO signet_owner;

CREATE TABLE public.attempts_20261121 (
    day date NOT NULL,
    delivery_id text NOT NULL COLLATE pg_catalog."C",
    cycle integer NOT NULL,
    attempt integer NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    lease_until timestamp with time zone,
    started_at timestamp with time zone NOT NULL,
    duration_ms integer,
    status integer,
    error text,
    response_body text
);

ALTER TABLE public.attempts_20261121 OWNER TO signet_owner;

CREATE TABLE public.attempts_20261122 (
    day date NOT NULL,
    delivery_id text NOT NULL COLLATE pg_catalog."C",
    cycle integer NOT NULL,
    attempt integer NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    lease_until timestamp with time zone,
    started_at timestamp with time zone NOT NULL,
    duration_ms integer,
    status integer,
    error text,
    response_body text
);

ALTER TABLE public.attempts_20261122 OWNER TO signet_owner;

CREATE TABLE public.attempts_20261123 (
    day date NOT NULL,
    delivery_id text NOT NULL COLLATE pg_catalog."C",
    cycle integer NOT NULL,
    attempt integer NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    lease_until timestamp with time zone,
    started_at timestamp with time zone NOT NULL,
    duration_ms integer,
    status integer,
    error text,
    response_body text
);

ALTER TABLE public.attempts_20261123 OWNER TO signet_owner;

CREATE TABLE public.attempts_20261124 (
    day date NOT NULL,
    delivery_id text NOT NULL COLLATE pg_catalog."C",
    cycle integer NOT NULL,
    attempt integer NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    lease_until timestamp with time zone,
    started_at timestamp with time zone NOT NULL,
    duration_ms integer,
    status integer,
    error text,
    response_body text
);

ALTER TABLE public.attempts_20261124 OWNER TO signet_owner;

CREATE TABLE public.attempts_20261125 (
    day date NOT NULL,
    delivery_id text NOT NULL COLLATE pg_catalog."C",
    cycle integer NOT NULL,
    attempt integer NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    lease_until timestamp with time zone,
    started_at timestamp with time zone NOT NULL,
    duration_ms integer,
    status integer,
    error text,
    response_body text
);

ALTER TABLE public.attempts_20261125 OWNER TO signet_owner;

CREATE TABLE public.attempts_20261126 (
    day date NOT NULL,
    delivery_id text NOT NULL COLLATE pg_catalog."C",
    cycle integer NOT NULL,
    attempt integer NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    lease_until timestamp with time zone,
    started_at timestamp with time zone NOT NULL,
    duration_ms integer,
    status integer,
    error text,
    response_body text
);

ALTER TABLE public.attempts_20261126 OWNER TO signet_owner;

CREATE TABLE public.attempts_20261127 (
    day date NOT NULL,
    delivery_id text NOT NULL COLLATE pg_catalog."C",
    cycle integer NOT NULL,
    attempt integer NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    lease_until timestamp with time zone,
    started_at timestamp with time zone NOT NULL,
    duration_ms integer,
    status integer,
    error text,
    response_body text
);

ALTER TABLE public.attempts_20261127 OWNER TO signet_owner;

CREATE TABLE public.attempts_default (
    day date NOT NULL,
    delivery_id text NOT NULL COLLATE pg_catalog."C",
    cycle integer NOT NULL,
    attempt integer NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    lease_until timestamp with time zone,
    started_at timestamp with time zone NOT NULL,
    duration_ms integer,
    status integer,
    error text,
    response_body text
);

ALTER TABLE public.attempts_default OWNER TO signet_owner;

CREATE TABLE public.credentials (
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    principal_id text NOT NULL COLLATE pg_catalog."C",
    client_id text NOT NULL COLLATE pg_catalog."C",
    state text DEFAULT 'ACTIVE'::text NOT NULL,
    rotation_mode text NOT NULL,
    san_uri text,
    certificate_thumbprints text[] DEFAULT '{}'::text[] NOT NULL,
    created_at timestamp with time zone NOT NULL,
    revoked_at timestamp with time zone,
    CONSTRAINT credentials_rotation_mode CHECK ((rotation_mode = ANY (ARRAY['in_band'::text, 'workload'::text, 'manual'::text]))),
    CONSTRAINT credentials_state CHECK ((state = ANY (ARRAY['ACTIVE'::text, 'REVOKED'::text])))
);

ALTER TABLE ONLY public.credentials FORCE ROW LEVEL SECURITY;

ALTER TABLE public.credentials OWNER TO signet_owner;

CREATE TABLE public.deliveries (
    day date NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    event_id text NOT NULL COLLATE pg_catalog."C",
    event_type text NOT NULL,
    endpoint_id text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL,
    reason text,
    carrier text COLLATE pg_catalog."C",
    epoch integer DEFAULT 1 NOT NULL,
    cycle integer DEFAULT 1 NOT NULL,
    claimed_at timestamp with time zone,
    attempt_count integer DEFAULT 0 NOT NULL,
    cycle_started_at timestamp with time zone,
    next_attempt_at timestamp with time zone,
    last_status integer,
    last_error text,
    created_at timestamp with time zone NOT NULL,
    delivered_at timestamp with time zone,
    dead_lettered_at timestamp with time zone,
    expires_at timestamp with time zone,
    CONSTRAINT deliveries_reason CHECK ((reason = ANY (ARRAY['attempts_exhausted'::text, 'endpoint_disabled'::text]))),
    CONSTRAINT deliveries_state CHECK ((state = ANY (ARRAY['QUEUED'::text, 'RETRYING'::text, 'DELIVERED'::text, 'DEAD_LETTERED'::text, 'EXPIRED'::text, 'CANCELLED'::text])))
)
PARTITION BY RANGE (day);

ALTER TABLE ONLY public.deliveries FORCE ROW LEVEL SECURITY;

ALTER TABLE public.deliveries OWNER TO signet_owner;

CREATE TABLE public.deliveries_20261119 (
    day date NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    event_id text NOT NULL COLLATE pg_catalog."C",
    event_type text NOT NULL,
    endpoint_id text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL,
    reason text,
    carrier text COLLATE pg_catalog."C",
    epoch integer DEFAULT 1 NOT NULL,
    cycle integer DEFAULT 1 NOT NULL,
    claimed_at timestamp with time zone,
    attempt_count integer DEFAULT 0 NOT NULL,
    cycle_started_at timestamp with time zone,
    next_attempt_at timestamp with time zone,
    last_status integer,
    last_error text,
    created_at timestamp with time zone NOT NULL,
    delivered_at timestamp with time zone,
    dead_lettered_at timestamp with time zone,
    expires_at timestamp with time zone,
    CONSTRAINT deliveries_reason CHECK ((reason = ANY (ARRAY['attempts_exhausted'::text, 'endpoint_disabled'::text]))),
    CONSTRAINT deliveries_state CHECK ((state = ANY (ARRAY['QUEUED'::text, 'RETRYING'::text, 'DELIVERED'::text, 'DEAD_LETTERED'::text, 'EXPIRED'::text, 'CANCELLED'::text])))
);

ALTER TABLE public.deliveries_20261119 OWNER TO signet_owner;

CREATE TABLE public.deliveries_20261120 (
    day date NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    event_id text NOT NULL COLLATE pg_catalog."C",
    event_type text NOT NULL,
    endpoint_id text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL,
    reason text,
    carrier text COLLATE pg_catalog."C",
    epoch integer DEFAULT 1 NOT NULL,
    cycle integer DEFAULT 1 NOT NULL,
    claimed_at timestamp with time zone,
    attempt_count integer DEFAULT 0 NOT NULL,
    cycle_started_at timestamp with time zone,
    next_attempt_at timestamp with time zone,
    last_status integer,
    last_error text,
    created_at timestamp with time zone NOT NULL,
    delivered_at timestamp with time zone,
    dead_lettered_at timestamp with time zone,
    expires_at timestamp with time zone,
    CONSTRAINT deliveries_reason CHECK ((reason = ANY (ARRAY['attempts_exhausted'::text, 'endpoint_disabled'::text]))),
    CONSTRAINT deliveries_state CHECK ((state = ANY (ARRAY['QUEUED'::text, 'RETRYING'::text, 'DELIVERED'::text, 'DEAD_LETTERED'::text, 'EXPIRED'::text, 'CANCELLED'::text])))
);

ALTER TABLE public.deliveries_20261120 OWNER TO signet_owner;

CREATE TABLE public.deliveries_20261121 (
    day date NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    event_id text NOT NULL COLLATE pg_catalog."C",
    event_type text NOT NULL,
    endpoint_id text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL,
    reason text,
    carrier text COLLATE pg_catalog."C",
    epoch integer DEFAULT 1 NOT NULL,
    cycle integer DEFAULT 1 NOT NULL,
    claimed_at timestamp with time zone,
    attempt_count integer DEFAULT 0 NOT NULL,
    cycle_started_at timestamp with time zone,
    next_attempt_at timestamp with time zone,
    last_status integer,
    last_error text,
    created_at timestamp with time zone NOT NULL,
    delivered_at timestamp with time zone,
    dead_lettered_at timestamp with time zone,
    expires_at timestamp with time zone,
    CONSTRAINT deliveries_reason CHECK ((reason = ANY (ARRAY['attempts_exhausted'::text, 'endpoint_disabled'::text]))),
    CONSTRAINT deliveries_state CHECK ((state = ANY (ARRAY['QUEUED'::text, 'RETRYING'::text, 'DELIVERED'::text, 'DEAD_LETTERED'::text, 'EXPIRED'::text, 'CANCELLED'::text])))
);

ALTER TABLE public.deliveries_20261121 OWNER TO signet_owner;

CREATE TABLE public.deliveries_20261122 (
    day date NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    event_id text NOT NULL COLLATE pg_catalog."C",
    event_type text NOT NULL,
    endpoint_id text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL,
    reason text,
    carrier text COLLATE pg_catalog."C",
    epoch integer DEFAULT 1 NOT NULL,
    cycle integer DEFAULT 1 NOT NULL,
    claimed_at timestamp with time zone,
    attempt_count integer DEFAULT 0 NOT NULL,
    cycle_started_at timestamp with time zone,
    next_attempt_at timestamp with time zone,
    last_status integer,
    last_error text,
    created_at timestamp with time zone NOT NULL,
    delivered_at timestamp with time zone,
    dead_lettered_at timestamp with time zone,
    expires_at timestamp with time zone,
    CONSTRAINT deliveries_reason CHECK ((reason = ANY (ARRAY['attempts_exhausted'::text, 'endpoint_disabled'::text]))),
    CONSTRAINT deliveries_state CHECK ((state = ANY (ARRAY['QUEUED'::text, 'RETRYING'::text, 'DELIVERED'::text, 'DEAD_LETTERED'::text, 'EXPIRED'::text, 'CANCELLED'::text])))
);

ALTER TABLE public.deliveries_20261122 OWNER TO signet_owner;

CREATE TABLE public.deliveries_20261123 (
    day date NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    event_id text NOT NULL COLLATE pg_catalog."C",
    event_type text NOT NULL,
    endpoint_id text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL,
    reason text,
    carrier text COLLATE pg_catalog."C",
    epoch integer DEFAULT 1 NOT NULL,
    cycle integer DEFAULT 1 NOT NULL,
    claimed_at timestamp with time zone,
    attempt_count integer DEFAULT 0 NOT NULL,
    cycle_started_at timestamp with time zone,
    next_attempt_at timestamp with time zone,
    last_status integer,
    last_error text,
    created_at timestamp with time zone NOT NULL,
    delivered_at timestamp with time zone,
    dead_lettered_at timestamp with time zone,
    expires_at timestamp with time zone,
    CONSTRAINT deliveries_reason CHECK ((reason = ANY (ARRAY['attempts_exhausted'::text, 'endpoint_disabled'::text]))),
    CONSTRAINT deliveries_state CHECK ((state = ANY (ARRAY['QUEUED'::text, 'RETRYING'::text, 'DELIVERED'::text, 'DEAD_LETTERED'::text, 'EXPIRED'::text, 'CANCELLED'::text])))
);

ALTER TABLE public.deliveries_20261123 OWNER TO signet_owner;

CREATE TABLE public.deliveries_20261124 (
    day date NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    event_id text NOT NULL COLLATE pg_catalog."C",
    event_type text NOT NULL,
    endpoint_id text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL,
    reason text,
    carrier text COLLATE pg_catalog."C",
    epoch integer DEFAULT 1 NOT NULL,
    cycle integer DEFAULT 1 NOT NULL,
    claimed_at timestamp with time zone,
    attempt_count integer DEFAULT 0 NOT NULL,
    cycle_started_at timestamp with time zone,
    next_attempt_at timestamp with time zone,
    last_status integer,
    last_error text,
    created_at timestamp with time zone NOT NULL,
    delivered_at timestamp with time zone,
    dead_lettered_at timestamp with time zone,
    expires_at timestamp with time zone,
    CONSTRAINT deliveries_reason CHECK ((reason = ANY (ARRAY['attempts_exhausted'::text, 'endpoint_disabled'::text]))),
    CONSTRAINT deliveries_state CHECK ((state = ANY (ARRAY['QUEUED'::text, 'RETRYING'::text, 'DELIVERED'::text, 'DEAD_LETTERED'::text, 'EXPIRED'::text, 'CANCELLED'::text])))
);

ALTER TABLE public.deliveries_20261124 OWNER TO signet_owner;

CREATE TABLE public.deliveries_20261125 (
    day date NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    event_id text NOT NULL COLLATE pg_catalog."C",
    event_type text NOT NULL,
    endpoint_id text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL,
    reason text,
    carrier text COLLATE pg_catalog."C",
    epoch integer DEFAULT 1 NOT NULL,
    cycle integer DEFAULT 1 NOT NULL,
    claimed_at timestamp with time zone,
    attempt_count integer DEFAULT 0 NOT NULL,
    cycle_started_at timestamp with time zone,
    next_attempt_at timestamp with time zone,
    last_status integer,
    last_error text,
    created_at timestamp with time zone NOT NULL,
    delivered_at timestamp with time zone,
    dead_lettered_at timestamp with time zone,
    expires_at timestamp with time zone,
    CONSTRAINT deliveries_reason CHECK ((reason = ANY (ARRAY['attempts_exhausted'::text, 'endpoint_disabled'::text]))),
    CONSTRAINT deliveries_state CHECK ((state = ANY (ARRAY['QUEUED'::text, 'RETRYING'::text, 'DELIVERED'::text, 'DEAD_LETTERED'::text, 'EXPIRED'::text, 'CANCELLED'::text])))
);

ALTER TABLE public.deliveries_20261125 OWNER TO signet_owner;

CREATE TABLE public.deliveries_20261126 (
    day date NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    event_id text NOT NULL COLLATE pg_catalog."C",
    event_type text NOT NULL,
    endpoint_id text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL,
    reason text,
    carrier text COLLATE pg_catalog."C",
    epoch integer DEFAULT 1 NOT NULL,
    cycle integer DEFAULT 1 NOT NULL,
    claimed_at timestamp with time zone,
    attempt_count integer DEFAULT 0 NOT NULL,
    cycle_started_at timestamp with time zone,
    next_attempt_at timestamp with time zone,
    last_status integer,
    last_error text,
    created_at timestamp with time zone NOT NULL,
    delivered_at timestamp with time zone,
    dead_lettered_at timestamp with time zone,
    expires_at timestamp with time zone,
    CONSTRAINT deliveries_reason CHECK ((reason = ANY (ARRAY['attempts_exhausted'::text, 'endpoint_disabled'::text]))),
    CONSTRAINT deliveries_state CHECK ((state = ANY (ARRAY['QUEUED'::text, 'RETRYING'::text, 'DELIVERED'::text, 'DEAD_LETTERED'::text, 'EXPIRED'::text, 'CANCELLED'::text])))
);

ALTER TABLE public.deliveries_20261126 OWNER TO signet_owner;

CREATE TABLE public.deliveries_20261127 (
    day date NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    event_id text NOT NULL COLLATE pg_catalog."C",
    event_type text NOT NULL,
    endpoint_id text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL,
    reason text,
    carrier text COLLATE pg_catalog."C",
    epoch integer DEFAULT 1 NOT NULL,
    cycle integer DEFAULT 1 NOT NULL,
    claimed_at timestamp with time zone,
    attempt_count integer DEFAULT 0 NOT NULL,
    cycle_started_at timestamp with time zone,
    next_attempt_at timestamp with time zone,
    last_status integer,
    last_error text,
    created_at timestamp with time zone NOT NULL,
    delivered_at timestamp with time zone,
    dead_lettered_at timestamp with time zone,
    expires_at timestamp with time zone,
    CONSTRAINT deliveries_reason CHECK ((reason = ANY (ARRAY['attempts_exhausted'::text, 'endpoint_disabled'::text]))),
    CONSTRAINT deliveries_state CHECK ((state = ANY (ARRAY['QUEUED'::text, 'RETRYING'::text, 'DELIVERED'::text, 'DEAD_LETTERED'::text, 'EXPIRED'::text, 'CANCELLED'::text])))
);

ALTER TABLE public.deliveries_20261127 OWNER TO signet_owner;

CREATE TABLE public.deliveries_default (
    day date NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    event_id text NOT NULL COLLATE pg_catalog."C",
    event_type text NOT NULL,
    endpoint_id text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL,
    reason text,
    carrier text COLLATE pg_catalog."C",
    epoch integer DEFAULT 1 NOT NULL,
    cycle integer DEFAULT 1 NOT NULL,
    claimed_at timestamp with time zone,
    attempt_count integer DEFAULT 0 NOT NULL,
    cycle_started_at timestamp with time zone,
    next_attempt_at timestamp with time zone,
    last_status integer,
    last_error text,
    created_at timestamp with time zone NOT NULL,
    delivered_at timestamp with time zone,
    dead_lettered_at timestamp with time zone,
    expires_at timestamp with time zone,
    CONSTRAINT deliveries_reason CHECK ((reason = ANY (ARRAY['attempts_exhausted'::text, 'endpoint_disabled'::text]))),
    CONSTRAINT deliveries_state CHECK ((state = ANY (ARRAY['QUEUED'::text, 'RETRYING'::text, 'DELIVERED'::text, 'DEAD_LETTERED'::text, 'EXPIRED'::text, 'CANCELLED'::text])))
);

ALTER TABLE public.deliveries_default OWNER TO signet_owner;

CREATE TABLE public.endpoint_health (
    endpoint_id text NOT NULL COLLATE pg_catalog."C",
    latency_ms integer NOT NULL,
    slow_until timestamp with time zone NOT NULL
);

ALTER TABLE public.endpoint_health OWNER TO signet_owner;

CREATE TABLE public.endpoint_secrets (
    endpoint_id text NOT NULL COLLATE pg_catalog."C",
    version integer NOT NULL,
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    secret text NOT NULL,
    fingerprint text NOT NULL,
    state text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT endpoint_secrets_state CHECK ((state = ANY (ARRAY['NEXT'::text, 'CURRENT'::text, 'PREVIOUS'::text, 'RETIRED'::text])))
);

ALTER TABLE ONLY public.endpoint_secrets FORCE ROW LEVEL SECURITY;

ALTER TABLE public.endpoint_secrets OWNER TO signet_owner;

CREATE TABLE public.endpoints (
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    url text NOT NULL,
    event_types text[] NOT NULL,
    metadata text,
    description text,
    state text NOT NULL,
    disabled_reason text,
    generation integer DEFAULT 1 NOT NULL,
    verification_state text NOT NULL,
    verification_requested_at timestamp with time zone NOT NULL,
    verification_attempts integer DEFAULT 0 NOT NULL,
    verification_last_error text,
    verification_next_attempt_at timestamp with time zone,
    verified_at timestamp with time zone,
    verified_by text,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    deleted_at timestamp with time zone,
    CONSTRAINT endpoints_state CHECK ((state = ANY (ARRAY['PENDING'::text, 'ACTIVE'::text, 'DISABLED'::text, 'DELETED'::text]))),
    CONSTRAINT endpoints_verification_state CHECK ((verification_state = ANY (ARRAY['WANTED'::text, 'RUNNING'::text, 'VERIFIED'::text, 'EXHAUSTED'::text])))
);

ALTER TABLE ONLY public.endpoints FORCE ROW LEVEL SECURITY;

ALTER TABLE public.endpoints OWNER TO signet_owner;

CREATE TABLE public.events (
    day date NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL,
    data text NOT NULL,
    source_id text,
    occurred_at timestamp with time zone NOT NULL,
    deliveries integer NOT NULL,
    created_at timestamp with time zone NOT NULL
)
PARTITION BY RANGE (day);

ALTER TABLE ONLY public.events FORCE ROW LEVEL SECURITY;

ALTER TABLE public.events OWNER TO signet_owner;

CREATE TABLE public.events_20261119 (
    day date NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL,
    data text NOT NULL,
    source_id text,
    occurred_at timestamp with time zone NOT NULL,
    deliveries integer NOT NULL,
    created_at timestamp with time zone NOT NULL
);

ALTER TABLE public.events_20261119 OWNER TO signet_owner;

CREATE TABLE public.events_20261120 (
    day date NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL,
    data text NOT NULL,
    source_id text,
    occurred_at timestamp with time zone NOT NULL,
    deliveries integer NOT NULL,
    created_at timestamp with time zone NOT NULL
);

ALTER TABLE public.events_20261120 OWNER TO signet_owner;

CREATE TABLE public.events_20261121 (
    day date NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL,
    data text NOT NULL,
    source_id text,
    occurred_at timestamp with time zone NOT NULL,
    deliveries integer NOT NULL,
    created_at timestamp with time zone NOT NULL
);

ALTER TABLE public.events_20261121 OWNER TO signet_owner;

CREATE TABLE public.events_20261122 (
    day date NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL,
    data text NOT NULL,
    source_id text,
    occurred_at timestamp with time zone NOT NULL,
    deliveries integer NOT NULL,
    created_at timestamp with time zone NOT NULL
);

ALTER TABLE public.events_20261122 OWNER TO signet_owner;

CREATE TABLE public.events_20261123 (
    day date NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL,
    data text NOT NULL,
    source_id text,
    occurred_at timestamp with time zone NOT NULL,
    deliveries integer NOT NULL,
    created_at timestamp with time zone NOT NULL
);

ALTER TABLE public.events_20261123 OWNER TO signet_owner;

CREATE TABLE public.events_20261124 (
    day date NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL,
    data text NOT NULL,
    source_id text,
    occurred_at timestamp with time zone NOT NULL,
    deliveries integer NOT NULL,
    created_at timestamp with time zone NOT NULL
);

ALTER TABLE public.events_20261124 OWNER TO signet_owner;

CREATE TABLE public.events_20261125 (
    day date NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL,
    data text NOT NULL,
    source_id text,
    occurred_at timestamp with time zone NOT NULL,
    deliveries integer NOT NULL,
    created_at timestamp with time zone NOT NULL
);

ALTER TABLE public.events_20261125 OWNER TO signet_owner;

CREATE TABLE public.events_20261126 (
    day date NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL,
    data text NOT NULL,
    source_id text,
    occurred_at timestamp with time zone NOT NULL,
    deliveries integer NOT NULL,
    created_at timestamp with time zone NOT NULL
);

ALTER TABLE public.events_20261126 OWNER TO signet_owner;

CREATE TABLE public.events_20261127 (
    day date NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL,
    data text NOT NULL,
    source_id text,
    occurred_at timestamp with time zone NOT NULL,
    deliveries integer NOT NULL,
    created_at timestamp with time zone NOT NULL
);

ALTER TABLE public.events_20261127 OWNER TO signet_owner;

CREATE TABLE public.events_default (
    day date NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL,
    data text NOT NULL,
    source_id text,
    occurred_at timestamp with time zone NOT NULL,
    deliveries integer NOT NULL,
    created_at timestamp with time zone NOT NULL
);

ALTER TABLE public.events_default OWNER TO signet_owner;

CREATE TABLE public.idempotency_keys (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    route text NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    body_hash bytea NOT NULL,
    resource_id text NOT NULL COLLATE pg_catalog."C",
    created_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY public.idempotency_keys FORCE ROW LEVEL SECURITY;

ALTER TABLE public.idempotency_keys OWNER TO signet_owner;

CREATE TABLE public.principals (
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    role_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL,
    region text NOT NULL,
    environment text NOT NULL,
    scopes text[] NOT NULL,
    provisioned_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT principals_environment CHECK ((environment = ANY (ARRAY['production'::text, 'development'::text])))
);

ALTER TABLE ONLY public.principals FORCE ROW LEVEL SECURITY;

ALTER TABLE public.principals OWNER TO signet_owner;

CREATE TABLE public.roles (
    id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL,
    scopes text[] NOT NULL,
    created_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY public.roles FORCE ROW LEVEL SECURITY;

ALTER TABLE public.roles OWNER TO signet_owner;

CREATE TABLE public.schema_migrations (
    version integer NOT NULL,
    name text NOT NULL,
    sha256 text NOT NULL,
    applied_at timestamp with time zone NOT NULL
);

ALTER TABLE public.schema_migrations OWNER TO signet_owner;

CREATE TABLE public.secret_versions (
    credential_id text NOT NULL COLLATE pg_catalog."C",
    version integer NOT NULL,
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    mac bytea NOT NULL,
    mac_key_id text NOT NULL,
    state text NOT NULL,
    issued_at timestamp with time zone NOT NULL,
    due_at timestamp with time zone,
    acked_at timestamp with time zone,
    last_used_at timestamp with time zone,
    retire_by timestamp with time zone,
    wrapped text,
    CONSTRAINT secret_versions_state CHECK ((state = ANY (ARRAY['PENDING'::text, 'ACTIVE'::text, 'RETIRING'::text, 'RETIRED'::text, 'REVOKED'::text])))
);

ALTER TABLE ONLY public.secret_versions FORCE ROW LEVEL SECURITY;

ALTER TABLE public.secret_versions OWNER TO signet_owner;

CREATE TABLE public.signing_keys (
    kid text NOT NULL COLLATE pg_catalog."C",
    alg text NOT NULL,
    public_jwk jsonb NOT NULL,
    private_key text NOT NULL,
    state text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    activated_at timestamp with time zone,
    retired_at timestamp with time zone,
    CONSTRAINT signing_keys_alg CHECK ((alg = ANY (ARRAY['ES256'::text, 'RS256'::text, 'Ed25519'::text]))),
    CONSTRAINT signing_keys_state CHECK ((state = ANY (ARRAY['NEXT'::text, 'CURRENT'::text, 'PREVIOUS'::text, 'GONE'::text])))
);

ALTER TABLE public.signing_keys OWNER TO signet_owner;

CREATE TABLE public.tenants (
    id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL,
    region text NOT NULL,
    state text DEFAULT 'ACTIVE'::text NOT NULL,
    platform boolean DEFAULT false NOT NULL,
    data_key text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT tenants_name_length CHECK (((length(name) >= 1) AND (length(name) <= 128))),
    CONSTRAINT tenants_state CHECK ((state = ANY (ARRAY['ACTIVE'::text, 'SUSPENDED'::text])))
);

ALTER TABLE ONLY public.tenants FORCE ROW LEVEL SECURITY;

ALTER TABLE public.tenants OWNER TO signet_owner;

CREATE TABLE public.workers (
    id text NOT NULL COLLATE pg_catalog."C",
    seen_at timestamp with time zone NOT NULL
);

ALTER TABLE public.workers OWNER TO signet_owner;

ALTER TABLE ONLY public.attempts ATTACH PARTITION public.attempts_20261119 FOR VALUES FROM ('2026-11-19') TO ('2026-11-20');

ALTER TABLE ONLY public.attempts ATTACH PARTITION public.attempts_20261120 FOR VALUES FROM ('2026-11-20') TO ('2026-11-21');

ALTER TABLE ONLY public.attempts ATTACH PARTITION public.attempts_20261121 FOR VALUES FROM ('2026-11-21') TO ('2026-11-22');

ALTER TABLE ONLY public.attempts ATTACH PARTITION public.attempts_20261122 FOR VALUES FROM ('2026-11-22') TO ('2026-11-23');

ALTER TABLE ONLY public.attempts ATTACH PARTITION public.attempts_20261123 FOR VALUES FROM ('2026-11-23') TO ('2026-11-24');

ALTER TABLE ONLY public.attempts ATTACH PARTITION public.attempts_20261124 FOR VALUES FROM ('2026-11-24') TO ('2026-11-25');

ALTER TABLE ONLY public.attempts ATTACH PARTITION public.attempts_20261125 FOR VALUES FROM ('2026-11-25') TO ('2026-11-26');

ALTER TABLE ONLY public.attempts ATTACH PARTITION public.attempts_20261126 FOR VALUES FROM ('2026-11-26') TO ('2026-11-27');

ALTER TABLE ONLY public.attempts ATTACH PARTITION public.attempts_20261127 FOR VALUES FROM ('2026-11-27') TO ('2026-11-28');

ALTER TABLE ONLY public.attempts ATTACH PARTITION public.attempts_default DEFAULT;

ALTER TABLE ONLY public.deliveries ATTACH PARTITION public.deliveries_20261119 FOR VALUES FROM ('2026-11-19') TO ('2026-11-20');

ALTER TABLE ONLY public.deliveries ATTACH PARTITION public.deliveries_20261120 FOR VALUES FROM ('2026-11-20') TO ('2026-11-21');

ALTER TABLE ONLY public.deliveries ATTACH PARTITION public.deliveries_20261121 FOR VALUES FROM ('2026-11-21') TO ('2026-11-22');

ALTER TABLE ONLY public.deliveries ATTACH PARTITION public.deliveries_20261122 FOR VALUES FROM ('2026-11-22') TO ('2026-11-23');

ALTER TABLE ONLY public.deliveries ATTACH PARTITION public.deliveries_20261123 FOR VALUES FROM ('2026-11-23') TO ('2026-11-24');

ALTER TABLE ONLY public.deliveries ATTACH PARTITION public.deliveries_20261124 FOR VALUES FROM ('2026-11-24') TO ('2026-11-25');

ALTER TABLE ONLY public.deliveries ATTACH PARTITION public.deliveries_20261125 FOR VALUES FROM ('2026-11-25') TO ('2026-11-26');

ALTER TABLE ONLY public.deliveries ATTACH PARTITION public.deliveries_20261126 FOR VALUES FROM ('2026-11-26') TO ('2026-11-27');

ALTER TABLE ONLY public.deliveries ATTACH PARTITION public.deliveries_20261127 FOR VALUES FROM ('2026-11-27') TO ('2026-11-28');

ALTER TABLE ONLY public.deliveries ATTACH PARTITION public.deliveries_default DEFAULT;

ALTER TABLE ONLY public.events ATTACH PARTITION public.events_20261119 FOR VALUES FROM ('2026-11-19') TO ('2026-11-20');

ALTER TABLE ONLY public.events ATTACH PARTITION public.events_20261120 FOR VALUES FROM ('2026-11-20') TO ('2026-11-21');

ALTER TABLE ONLY public.events ATTACH PARTITION public.events_20261121 FOR VALUES FROM ('2026-11-21') TO ('2026-11-22');

ALTER TABLE ONLY public.events ATTACH PARTITION public.events_20261122 FOR VALUES FROM ('2026-11-22') TO ('2026-11-23');

ALTER TABLE ONLY public.events ATTACH PARTITION public.events_20261123 FOR VALUES FROM ('2026-11-23') TO ('2026-11-24');

ALTER TABLE ONLY public.events ATTACH PARTITION public.events_20261124 FOR VALUES FROM ('2026-11-24') TO ('2026-11-25');

ALTER TABLE ONLY public.events ATTACH PARTITION public.events_20261125 FOR VALUES FROM ('2026-11-25') TO ('2026-11-26');

ALTER TABLE ONLY public.events ATTACH PARTITION public.events_20261126 FOR VALUES FROM ('2026-11-26') TO ('2026-11-27');

ALTER TABLE ONLY public.events ATTACH PARTITION public.events_20261127 FOR VALUES FROM ('2026-11-27') TO ('2026-11-28');

ALTER TABLE ONLY public.events ATTACH PARTITION public.events_default DEFAULT;

ALTER TABLE ONLY public.attempts
    ADD CONSTRAINT attempts_pkey PRIMARY KEY (day, delivery_id, cycle, attempt);

ALTER TABLE ONLY public.attempts_20261119
    ADD CONSTRAINT attempts_20261119_pkey PRIMARY KEY (day, delivery_id, cycle, attempt);

ALTER TABLE ONLY public.attempts_20261120
    ADD CONSTRAINT attempts_20261120_pkey PRIMARY KEY (day, delivery_id, cycle, attempt);

ALTER TABLE ONLY public.attempts_20261121
    ADD CONSTRAINT attempts_20261121_pkey PRIMARY KEY (day, delivery_id, cycle, attempt);

ALTER TABLE ONLY public.attempts_20261122
    ADD CONSTRAINT attempts_20261122_pkey PRIMARY KEY (day, delivery_id, cycle, attempt);

ALTER TABLE ONLY public.attempts_20261123
    ADD CONSTRAINT attempts_20261123_pkey PRIMARY KEY (day, delivery_id, cycle, attempt);

ALTER TABLE ONLY public.attempts_20261124
    ADD CONSTRAINT attempts_20261124_pkey PRIMARY KEY (day, delivery_id, cycle, attempt);

ALTER TABLE ONLY public.attempts_20261125
    ADD CONSTRAINT attempts_20261125_pkey PRIMARY KEY (day, delivery_id, cycle, attempt);

ALTER TABLE ONLY public.attempts_20261126
    ADD CONSTRAINT attempts_20261126_pkey PRIMARY KEY (day, delivery_id, cycle, attempt);

ALTER TABLE ONLY public.attempts_20261127
    ADD CONSTRAINT attempts_20261127_pkey PRIMARY KEY (day, delivery_id, cycle, attempt);

ALTER TABLE ONLY public.attempts_default
    ADD CONSTRAINT attempts_default_pkey PRIMARY KEY (day, delivery_id, cycle, attempt);

ALTER TABLE ONLY public.credentials
    ADD CONSTRAINT credentials_client_id_once UNIQUE (client_id);

ALTER TABLE ONLY public.credentials
    ADD CONSTRAINT credentials_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.deliveries
    ADD CONSTRAINT deliveries_pkey PRIMARY KEY (day, id);

ALTER TABLE ONLY public.deliveries_20261119
    ADD CONSTRAINT deliveries_20261119_pkey PRIMARY KEY (day, id);

ALTER TABLE ONLY public.deliveries_20261120
    ADD CONSTRAINT deliveries_20261120_pkey PRIMARY KEY (day, id);

ALTER TABLE ONLY public.deliveries_20261121
    ADD CONSTRAINT deliveries_20261121_pkey PRIMARY KEY (day, id);

ALTER TABLE ONLY public.deliveries_20261122
    ADD CONSTRAINT deliveries_20261122_pkey PRIMARY KEY (day, id);

ALTER TABLE ONLY public.deliveries_20261123
    ADD CONSTRAINT deliveries_20261123_pkey PRIMARY KEY (day, id);

ALTER TABLE ONLY public.deliveries_20261124
    ADD CONSTRAINT deliveries_20261124_pkey PRIMARY KEY (day, id);

ALTER TABLE ONLY public.deliveries_20261125
    ADD CONSTRAINT deliveries_20261125_pkey PRIMARY KEY (day, id);

ALTER TABLE ONLY public.deliveries_20261126
    ADD CONSTRAINT deliveries_20261126_pkey PRIMARY KEY (day, id);

ALTER TABLE ONLY public.deliveries_20261127
    ADD CONSTRAINT deliveries_20261127_pkey PRIMARY KEY (day, id);

ALTER TABLE ONLY public.deliveries_default
    ADD CONSTRAINT deliveries_default_pkey PRIMARY KEY (day, id);

ALTER TABLE ONLY public.endpoint_health
    ADD CONSTRAINT endpoint_health_pkey PRIMARY KEY (endpoint_id);

ALTER TABLE ONLY public.endpoint_secrets
    ADD CONSTRAINT endpoint_secrets_pkey PRIMARY KEY (endpoint_id, version);

ALTER TABLE ONLY public.endpoints
    ADD CONSTRAINT endpoints_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (day, id);

ALTER TABLE ONLY public.events_20261119
    ADD CONSTRAINT events_20261119_pkey PRIMARY KEY (day, id);

ALTER TABLE ONLY public.events_20261120
    ADD CONSTRAINT events_20261120_pkey PRIMARY KEY (day, id);

ALTER TABLE ONLY public.events_20261121
    ADD CONSTRAINT events_20261121_pkey PRIMARY KEY (day, id);

ALTER TABLE ONLY public.events_20261122
    ADD CONSTRAINT events_20261122_pkey PRIMARY KEY (day, id);

ALTER TABLE ONLY public.events_20261123
    ADD CONSTRAINT events_20261123_pkey PRIMARY KEY (day, id);

ALTER TABLE ONLY public.events_20261124
    ADD CONSTRAINT events_20261124_pkey PRIMARY KEY (day, id);

ALTER TABLE ONLY public.events_20261125
    ADD CONSTRAINT events_20261125_pkey PRIMARY KEY (day, id);

ALTER TABLE ONLY public.events_20261126
    ADD CONSTRAINT events_20261126_pkey PRIMARY KEY (day, id);

ALTER TABLE ONLY public.events_20261127
    ADD CONSTRAINT events_20261127_pkey PRIMARY KEY (day, id);

ALTER TABLE ONLY public.events_default
    ADD CONSTRAINT events_default_pkey PRIMARY KEY (day, id);

ALTER TABLE ONLY public.idempotency_keys
    ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (tenant_id, route, key);

ALTER TABLE ONLY public.principals
    ADD CONSTRAINT principals_name_once UNIQUE (tenant_id, name);

ALTER TABLE ONLY public.principals
    ADD CONSTRAINT principals_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.roles
    ADD CONSTRAINT roles_name_once UNIQUE (tenant_id, name);

ALTER TABLE ONLY public.roles
    ADD CONSTRAINT roles_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.schema_migrations
    ADD CONSTRAINT schema_migrations_pkey PRIMARY KEY (version);

ALTER TABLE ONLY public.secret_versions
    ADD CONSTRAINT secret_versions_pkey PRIMARY KEY (credential_id, version);

ALTER TABLE ONLY public.signing_keys
    ADD CONSTRAINT signing_keys_pkey PRIMARY KEY (kid);

ALTER TABLE ONLY public.tenants
    ADD CONSTRAINT tenants_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.workers
    ADD CONSTRAINT workers_pkey PRIMARY KEY (id);

CREATE INDEX credentials_of_principal ON public.credentials USING btree (principal_id, id);

CREATE INDEX credentials_of_tenant ON public.credentials USING btree (tenant_id, id);

CREATE INDEX deliveries_unstarted ON ONLY public.deliveries USING btree (claimed_at) WHERE ((carrier IS NOT NULL) AND (state = 'QUEUED'::text));

CREATE INDEX deliveries_20261119_claimed_at_idx ON public.deliveries_20261119 USING btree (claimed_at) WHERE ((carrier IS NOT NULL) AND (state = 'QUEUED'::text));

CREATE INDEX deliveries_of_event ON ONLY public.deliveries USING btree (event_id);

CREATE INDEX deliveries_20261119_event_id_idx ON public.deliveries_20261119 USING btree (event_id);

CREATE INDEX deliveries_expiring ON ONLY public.deliveries USING btree (expires_at) WHERE (state = 'DEAD_LETTERED'::text);

CREATE INDEX deliveries_20261119_expires_at_idx ON public.deliveries_20261119 USING btree (expires_at) WHERE (state = 'DEAD_LETTERED'::text);

CREATE INDEX deliveries_uncarried ON ONLY public.deliveries USING btree (next_attempt_at) WHERE ((carrier IS NULL) AND (state = 'RETRYING'::text));

CREATE INDEX deliveries_20261119_next_attempt_at_idx ON public.deliveries_20261119 USING btree (next_attempt_at) WHERE ((carrier IS NULL) AND (state = 'RETRYING'::text));

CREATE INDEX deliveries_carried_due ON ONLY public.deliveries USING btree (next_attempt_at) WHERE ((carrier IS NOT NULL) AND (state = 'RETRYING'::text));

CREATE INDEX deliveries_20261119_next_attempt_at_idx1 ON public.deliveries_20261119 USING btree (next_attempt_at) WHERE ((carrier IS NOT NULL) AND (state = 'RETRYING'::text));

CREATE INDEX deliveries_of_tenant ON ONLY public.deliveries USING btree (tenant_id, day, id);

CREATE INDEX deliveries_20261119_tenant_id_day_id_idx ON public.deliveries_20261119 USING btree (tenant_id, day, id);

CREATE INDEX deliveries_dead ON ONLY public.deliveries USING btree (tenant_id, day, id) WHERE (state = 'DEAD_LETTERED'::text);

CREATE INDEX deliveries_20261119_tenant_id_day_id_idx1 ON public.deliveries_20261119 USING btree (tenant_id, day, id) WHERE (state = 'DEAD_LETTERED'::text);

CREATE INDEX deliveries_unclaimed ON ONLY public.deliveries USING btree (tenant_id, id) WHERE ((carrier IS NULL) AND (state = 'QUEUED'::text));

CREATE INDEX deliveries_20261119_tenant_id_id_idx ON public.deliveries_20261119 USING btree (tenant_id, id) WHERE ((carrier IS NULL) AND (state = 'QUEUED'::text));

CREATE INDEX deliveries_20261120_claimed_at_idx ON public.deliveries_20261120 USING btree (claimed_at) WHERE ((carrier IS NOT NULL) AND (state = 'QUEUED'::text));

CREATE INDEX deliveries_20261120_event_id_idx ON public.deliveries_20261120 USING btree (event_id);

CREATE INDEX deliveries_20261120_expires_at_idx ON public.deliveries_20261120 USING btree (expires_at) WHERE (state = 'DEAD_LETTERED'::text);

CREATE INDEX deliveries_20261120_next_attempt_at_idx ON public.deliveries_20261120 USING btree (next_attempt_at) WHERE ((carrier IS NULL) AND (state = 'RETRYING'::text));

CREATE INDEX deliveries_20261120_next_attempt_at_idx1 ON public.deliveries_20261120 USING btree (next_attempt_at) WHERE ((carrier IS NOT NULL) AND (state = 'RETRYING'::text));

CREATE INDEX deliveries_20261120_tenant_id_day_id_idx ON public.deliveries_20261120 USING btree (tenant_id, day, id);

CREATE INDEX deliveries_20261120_tenant_id_day_id_idx1 ON public.deliveries_20261120 USING btree (tenant_id, day, id) WHERE (state = 'DEAD_LETTERED'::text);

CREATE INDEX deliveries_20261120_tenant_id_id_idx ON public.deliveries_20261120 USING btree (tenant_id, id) WHERE ((carrier IS NULL) AND (state = 'QUEUED'::text));

CREATE INDEX deliveries_20261121_claimed_at_idx ON public.deliveries_20261121 USING btree (claimed_at) WHERE ((carrier IS NOT NULL) AND (state = 'QUEUED'::text));

CREATE INDEX deliveries_20261121_event_id_idx ON public.deliveries_20261121 USING btree (event_id);

CREATE INDEX deliveries_20261121_expires_at_idx ON public.deliveries_20261121 USING btree (expires_at) WHERE (state = 'DEAD_LETTERED'::text);

CREATE INDEX deliveries_20261121_next_attempt_at_idx ON public.deliveries_20261121 USING btree (next_attempt_at) WHERE ((carrier IS NULL) AND (state = 'RETRYING'::text));

CREATE INDEX deliveries_20261121_next_attempt_at_idx1 ON public.deliveries_20261121 USING btree (next_attempt_at) WHERE ((carrier IS NOT NULL) AND (state = 'RETRYING'::text));

CREATE INDEX deliveries_20261121_tenant_id_day_id_idx ON public.deliveries_20261121 USING btree (tenant_id, day, id);

CREATE INDEX deliveries_20261121_tenant_id_day_id_idx1 ON public.deliveries_20261121 USING btree (tenant_id, day, id) WHERE (state = 'DEAD_LETTERED'::text);

CREATE INDEX deliveries_20261121_tenant_id_id_idx ON public.deliveries_20261121 USING btree (tenant_id, id) WHERE ((carrier IS NULL) AND (state = 'QUEUED'::text));

CREATE INDEX deliveries_20261122_claimed_at_idx ON public.deliveries_20261122 USING btree (claimed_at) WHERE ((carrier IS NOT NULL) AND (state = 'QUEUED'::text));

CREATE INDEX deliveries_20261122_event_id_idx ON public.deliveries_20261122 USING btree (event_id);

CREATE INDEX deliveries_20261122_expires_at_idx ON public.deliveries_20261122 USING btree (expires_at) WHERE (state = 'DEAD_LETTERED'::text);

CREATE INDEX deliveries_20261122_next_attempt_at_idx ON public.deliveries_20261122 USING btree (next_attempt_at) WHERE ((carrier IS NULL) AND (state = 'RETRYING'::text));

CREATE INDEX deliveries_20261122_next_attempt_at_idx1 ON public.deliveries_20261122 USING btree (next_attempt_at) WHERE ((carrier IS NOT NULL) AND (state = 'RETRYING'::text));

CREATE INDEX deliveries_20261122_tenant_id_day_id_idx ON public.deliveries_20261122 USING btree (tenant_id, day, id);

CREATE INDEX deliveries_20261122_tenant_id_day_id_idx1 ON public.deliveries_20261122 USING btree (tenant_id, day, id) WHERE (state = 'DEAD_LETTERED'::text);

CREATE INDEX deliveries_20261122_tenant_id_id_idx ON public.deliveries_20261122 USING btree (tenant_id, id) WHERE ((carrier IS NULL) AND (state = 'QUEUED'::text));

CREATE INDEX deliveries_20261123_claimed_at_idx ON public.deliveries_20261123 USING btree (claimed_at) WHERE ((carrier IS NOT NULL) AND (state = 'QUEUED'::text));

CREATE INDEX deliveries_20261123_event_id_idx ON public.deliveries_20261123 USING btree (event_id);

CREATE INDEX deliveries_20261123_expires_at_idx ON public.deliveries_20261123 USING btree (expires_at) WHERE (state = 'DEAD_LETTERED'::text);

CREATE INDEX deliveries_20261123_next_attempt_at_idx ON public.deliveries_20261123 USING btree (next_attempt_at) WHERE ((carrier IS NULL) AND (state = 'RETRYING'::text));

CREATE INDEX deliveries_20261123_next_attempt_at_idx1 ON public.deliveries_20261123 USING btree (next_attempt_at) WHERE ((carrier IS NOT NULL) AND (state = 'RETRYING'::text));

CREATE INDEX deliveries_20261123_tenant_id_day_id_idx ON public.deliveries_20261123 USING btree (tenant_id, day, id);

CREATE INDEX deliveries_20261123_tenant_id_day_id_idx1 ON public.deliveries_20261123 USING btree (tenant_id, day, id) WHERE (state = 'DEAD_LETTERED'::text);

CREATE INDEX deliveries_20261123_tenant_id_id_idx ON public.deliveries_20261123 USING btree (tenant_id, id) WHERE ((carrier IS NULL) AND (state = 'QUEUED'::text));

CREATE INDEX deliveries_20261124_claimed_at_idx ON public.deliveries_20261124 USING btree (claimed_at) WHERE ((carrier IS NOT NULL) AND (state = 'QUEUED'::text));

CREATE INDEX deliveries_20261124_event_id_idx ON public.deliveries_20261124 USING btree (event_id);

CREATE INDEX deliveries_20261124_expires_at_idx ON public.deliveries_20261124 USING btree (expires_at) WHERE (state = 'DEAD_LETTERED'::text);

CREATE INDEX deliveries_20261124_next_attempt_at_idx ON public.deliveries_20261124 USING btree (next_attempt_at) WHERE ((carrier IS NULL) AND (state = 'RETRYING'::text));

CREATE INDEX deliveries_20261124_next_attempt_at_idx1 ON public.deliveries_20261124 USING btree (next_attempt_at) WHERE ((carrier IS NOT NULL) AND (state = 'RETRYING'::text));

CREATE INDEX deliveries_20261124_tenant_id_day_id_idx ON public.deliveries_20261124 USING btree (tenant_id, day, id);

CREATE INDEX deliveries_20261124_tenant_id_day_id_idx1 ON public.deliveries_20261124 USING btree (tenant_id, day, id) WHERE (state = 'DEAD_LETTERED'::text);

CREATE INDEX deliveries_20261124_tenant_id_id_idx ON public.deliveries_20261124 USING btree (tenant_id, id) WHERE ((carrier IS NULL) AND (state = 'QUEUED'::text));

CREATE INDEX deliveries_20261125_claimed_at_idx ON public.deliveries_20261125 USING btree (claimed_at) WHERE ((carrier IS NOT NULL) AND (state = 'QUEUED'::text));

CREATE INDEX deliveries_20261125_event_id_idx ON public.deliveries_20261125 USING btree (event_id);

CREATE INDEX deliveries_20261125_expires_at_idx ON public.deliveries_20261125 USING btree (expires_at) WHERE (state = 'DEAD_LETTERED'::text);

CREATE INDEX deliveries_20261125_next_attempt_at_idx ON public.deliveries_20261125 USING btree (next_attempt_at) WHERE ((carrier IS NULL) AND (state = 'RETRYING'::text));

CREATE INDEX deliveries_20261125_next_attempt_at_idx1 ON public.deliveries_20261125 USING btree (next_attempt_at) WHERE ((carrier IS NOT NULL) AND (state = 'RETRYING'::text));

CREATE INDEX deliveries_20261125_tenant_id_day_id_idx ON public.deliveries_20261125 USING btree (tenant_id, day, id);

CREATE INDEX deliveries_20261125_tenant_id_day_id_idx1 ON public.deliveries_20261125 USING btree (tenant_id, day, id) WHERE (state = 'DEAD_LETTERED'::text);

CREATE INDEX deliveries_20261125_tenant_id_id_idx ON public.deliveries_20261125 USING btree (tenant_id, id) WHERE ((carrier IS NULL) AND (state = 'QUEUED'::text));

CREATE INDEX deliveries_20261126_claimed_at_idx ON public.deliveries_20261126 USING btree (claimed_at) WHERE ((carrier IS NOT NULL) AND (state = 'QUEUED'::text));

CREATE INDEX deliveries_20261126_event_id_idx ON public.deliveries_20261126 USING btree (event_id);

CREATE INDEX deliveries_20261126_expires_at_idx ON public.deliveries_20261126 USING btree (expires_at) WHERE (state = 'DEAD_LETTERED'::text);

CREATE INDEX deliveries_20261126_next_attempt_at_idx ON public.deliveries_20261126 USING btree (next_attempt_at) WHERE ((carrier IS NULL) AND (state = 'RETRYING'::text));

CREATE INDEX deliveries_20261126_next_attempt_at_idx1 ON public.deliveries_20261126 USING btree (next_attempt_at) WHERE ((carrier IS NOT NULL) AND (state = 'RETRYING'::text));

CREATE INDEX deliveries_20261126_tenant_id_day_id_idx ON public.deliveries_20261126 USING btree (tenant_id, day, id);

CREATE INDEX deliveries_20261126_tenant_id_day_id_idx1 ON public.deliveries_20261126 USING btree (tenant_id, day, id) WHERE (state = 'DEAD_LETTERED'::text);

CREATE INDEX deliveries_20261126_tenant_id_id_idx ON public.deliveries_20261126 USING btree (tenant_id, id) WHERE ((carrier IS NULL) AND (state = 'QUEUED'::text));

CREATE INDEX deliveries_20261127_claimed_at_idx ON public.deliveries_20261127 USING btree (claimed_at) WHERE ((carrier IS NOT NULL) AND (state = 'QUEUED'::text));

CREATE INDEX deliveries_20261127_event_id_idx ON public.deliveries_20261127 USING btree (event_id);

CREATE INDEX deliveries_20261127_expires_at_idx ON public.deliveries_20261127 USING btree (expires_at) WHERE (state = 'DEAD_LETTERED'::text);

CREATE INDEX deliveries_20261127_next_attempt_at_idx ON public.deliveries_20261127 USING btree (next_attempt_at) WHERE ((carrier IS NULL) AND (state = 'RETRYING'::text));

CREATE INDEX deliveries_20261127_next_attempt_at_idx1 ON public.deliveries_20261127 USING btree (next_attempt_at) WHERE ((carrier IS NOT NULL) AND (state = 'RETRYING'::text));

CREATE INDEX deliveries_20261127_tenant_id_day_id_idx ON public.deliveries_20261127 USING btree (tenant_id, day, id);

CREATE INDEX deliveries_20261127_tenant_id_day_id_idx1 ON public.deliveries_20261127 USING btree (tenant_id, day, id) WHERE (state = 'DEAD_LETTERED'::text);

CREATE INDEX deliveries_20261127_tenant_id_id_idx ON public.deliveries_20261127 USING btree (tenant_id, id) WHERE ((carrier IS NULL) AND (state = 'QUEUED'::text));

CREATE INDEX deliveries_default_claimed_at_idx ON public.deliveries_default USING btree (claimed_at) WHERE ((carrier IS NOT NULL) AND (state = 'QUEUED'::text));

CREATE INDEX deliveries_default_event_id_idx ON public.deliveries_default USING btree (event_id);

CREATE INDEX deliveries_default_expires_at_idx ON public.deliveries_default USING btree (expires_at) WHERE (state = 'DEAD_LETTERED'::text);

CREATE INDEX deliveries_default_next_attempt_at_idx ON public.deliveries_default USING btree (next_attempt_at) WHERE ((carrier IS NULL) AND (state = 'RETRYING'::text));

CREATE INDEX deliveries_default_next_attempt_at_idx1 ON public.deliveries_default USING btree (next_attempt_at) WHERE ((carrier IS NOT NULL) AND (state = 'RETRYING'::text));

CREATE INDEX deliveries_default_tenant_id_day_id_idx ON public.deliveries_default USING btree (tenant_id, day, id);

CREATE INDEX deliveries_default_tenant_id_day_id_idx1 ON public.deliveries_default USING btree (tenant_id, day, id) WHERE (state = 'DEAD_LETTERED'::text);

CREATE INDEX deliveries_default_tenant_id_id_idx ON public.deliveries_default USING btree (tenant_id, id) WHERE ((carrier IS NULL) AND (state = 'QUEUED'::text));

CREATE INDEX endpoint_health_slow ON public.endpoint_health USING btree (slow_until);

CREATE UNIQUE INDEX endpoint_secrets_one_current ON public.endpoint_secrets USING btree (endpoint_id) WHERE (state = 'CURRENT'::text);

CREATE INDEX endpoints_of_tenant ON public.endpoints USING btree (tenant_id, id) WHERE (state <> 'DELETED'::text);

CREATE INDEX endpoints_to_verify ON public.endpoints USING btree (verification_requested_at) WHERE ((verification_state = 'WANTED'::text) AND (state = 'PENDING'::text));

CREATE INDEX events_of_tenant ON ONLY public.events USING btree (tenant_id, day, id);

CREATE INDEX events_20261119_tenant_id_day_id_idx ON public.events_20261119 USING btree (tenant_id, day, id);

CREATE INDEX events_20261120_tenant_id_day_id_idx ON public.events_20261120 USING btree (tenant_id, day, id);

CREATE INDEX events_20261121_tenant_id_day_id_idx ON public.events_20261121 USING btree (tenant_id, day, id);

CREATE INDEX events_20261122_tenant_id_day_id_idx ON public.events_20261122 USING btree (tenant_id, day, id);

CREATE INDEX events_20261123_tenant_id_day_id_idx ON public.events_20261123 USING btree (tenant_id, day, id);

CREATE INDEX events_20261124_tenant_id_day_id_idx ON public.events_20261124 USING btree (tenant_id, day, id);

CREATE INDEX events_20261125_tenant_id_day_id_idx ON public.events_20261125 USING btree (tenant_id, day, id);

CREATE INDEX events_20261126_tenant_id_day_id_idx ON public.events_20261126 USING btree (tenant_id, day, id);

CREATE INDEX events_20261127_tenant_id_day_id_idx ON public.events_20261127 USING btree (tenant_id, day, id);

CREATE INDEX events_default_tenant_id_day_id_idx ON public.events_default USING btree (tenant_id, day, id);

CREATE INDEX idempotency_keys_by_age ON public.idempotency_keys USING btree (created_at);

CREATE INDEX principals_of_role ON public.principals USING btree (role_id);

CREATE UNIQUE INDEX signing_keys_one_current ON public.signing_keys USING btree (state) WHERE (state = 'CURRENT'::text);

CREATE UNIQUE INDEX tenants_one_platform ON public.tenants USING btree (platform) WHERE platform;

ALTER INDEX public.attempts_pkey ATTACH PARTITION public.attempts_20261119_pkey;

ALTER INDEX public.attempts_pkey ATTACH PARTITION public.attempts_20261120_pkey;

ALTER INDEX public.attempts_pkey ATTACH PARTITION public.attempts_20261121_pkey;

ALTER INDEX public.attempts_pkey ATTACH PARTITION public.attempts_20261122_pkey;

ALTER INDEX public.attempts_pkey ATTACH PARTITION public.attempts_20261123_pkey;

ALTER INDEX public.attempts_pkey ATTACH PARTITION public.attempts_20261124_pkey;

ALTER INDEX public.attempts_pkey ATTACH PARTITION public.attempts_20261125_pkey;

ALTER INDEX public.attempts_pkey ATTACH PARTITION public.attempts_20261126_pkey;

ALTER INDEX public.attempts_pkey ATTACH PARTITION public.attempts_20261127_pkey;

ALTER INDEX public.attempts_pkey ATTACH PARTITION public.attempts_default_pkey;

ALTER INDEX public.deliveries_unstarted ATTACH PARTITION public.deliveries_20261119_claimed_at_idx;

ALTER INDEX public.deliveries_of_event ATTACH PARTITION public.deliveries_20261119_event_id_idx;

ALTER INDEX public.deliveries_expiring ATTACH PARTITION public.deliveries_20261119_expires_at_idx;

ALTER INDEX public.deliveries_uncarried ATTACH PARTITION public.deliveries_20261119_next_attempt_at_idx;

ALTER INDEX public.deliveries_carried_due ATTACH PARTITION public.deliveries_20261119_next_attempt_at_idx1;

ALTER INDEX public.deliveries_pkey ATTACH PARTITION public.deliveries_20261119_pkey;

ALTER INDEX public.deliveries_of_tenant ATTACH PARTITION public.deliveries_20261119_tenant_id_day_id_idx;

ALTER INDEX public.deliveries_dead ATTACH PARTITION public.deliveries_20261119_tenant_id_day_id_idx1;

ALTER INDEX public.deliveries_unclaimed ATTACH PARTITION public.deliveries_20261119_tenant_id_id_idx;

ALTER INDEX public.deliveries_unstarted ATTACH PARTITION public.deliveries_20261120_claimed_at_idx;

ALTER INDEX public.deliveries_of_event ATTACH PARTITION public.deliveries_20261120_event_id_idx;

ALTER INDEX public.deliveries_expiring ATTACH PARTITION public.deliveries_20261120_expires_at_idx;

ALTER INDEX public.deliveries_uncarried ATTACH PARTITION public.deliveries_20261120_next_attempt_at_idx;

ALTER INDEX public.deliveries_carried_due ATTACH PARTITION public.deliveries_20261120_next_attempt_at_idx1;

ALTER INDEX public.deliveries_pkey ATTACH PARTITION public.deliveries_20261120_pkey;

ALTER INDEX public.deliveries_of_tenant ATTACH PARTITION public.deliveries_20261120_tenant_id_day_id_idx;

ALTER INDEX public.deliveries_dead ATTACH PARTITION public.deliveries_20261120_tenant_id_day_id_idx1;

ALTER INDEX public.deliveries_unclaimed ATTACH PARTITION public.deliveries_20261120_tenant_id_id_idx;

ALTER INDEX public.deliveries_unstarted ATTACH PARTITION public.deliveries_20261121_claimed_at_idx;

ALTER INDEX public.deliveries_of_event ATTACH PARTITION public.deliveries_20261121_event_id_idx;

ALTER INDEX public.deliveries_expiring ATTACH PARTITION public.deliveries_20261121_expires_at_idx;

ALTER INDEX public.deliveries_uncarried ATTACH PARTITION public.deliveries_20261121_next_attempt_at_idx;

ALTER INDEX public.deliveries_carried_due ATTACH PARTITION public.deliveries_20261121_next_attempt_at_idx1;

ALTER INDEX public.deliveries_pkey ATTACH PARTITION public.deliveries_20261121_pkey;

ALTER INDEX public.deliveries_of_tenant ATTACH PARTITION public.deliveries_20261121_tenant_id_day_id_idx;

ALTER INDEX public.deliveries_dead ATTACH PARTITION public.deliveries_20261121_tenant_id_day_id_idx1;

ALTER INDEX public.deliveries_unclaimed ATTACH PARTITION public.deliveries_20261121_tenant_id_id_idx;

ALTER INDEX public.deliveries_unstarted ATTACH PARTITION public.deliveries_20261122_claimed_at_idx;

ALTER INDEX public.deliveries_of_event ATTACH PARTITION public.deliveries_20261122_event_id_idx;

ALTER INDEX public.deliveries_expiring ATTACH PARTITION public.deliveries_20261122_expires_at_idx;

ALTER INDEX public.deliveries_uncarried ATTACH PARTITION public.deliveries_20261122_next_attempt_at_idx;

ALTER INDEX public.deliveries_carried_due ATTACH PARTITION public.deliveries_20261122_next_attempt_at_idx1;

ALTER INDEX public.deliveries_pkey ATTACH PARTITION public.deliveries_20261122_pkey;

ALTER INDEX public.deliveries_of_tenant ATTACH PARTITION public.deliveries_20261122_tenant_id_day_id_idx;

ALTER INDEX public.deliveries_dead ATTACH PARTITION public.deliveries_20261122_tenant_id_day_id_idx1;

ALTER INDEX public.deliveries_unclaimed ATTACH PARTITION public.deliveries_20261122_tenant_id_id_idx;

ALTER INDEX public.deliveries_unstarted ATTACH PARTITION public.deliveries_20261123_claimed_at_idx;

ALTER INDEX public.deliveries_of_event ATTACH PARTITION public.deliveries_20261123_event_id_idx;

ALTER INDEX public.deliveries_expiring ATTACH PARTITION public.deliveries_20261123_expires_at_idx;

ALTER INDEX public.deliveries_uncarried ATTACH PARTITION public.deliveries_20261123_next_attempt_at_idx;

ALTER INDEX public.deliveries_carried_due ATTACH PARTITION public.deliveries_20261123_next_attempt_at_idx1;

ALTER INDEX public.deliveries_pkey ATTACH PARTITION public.deliveries_20261123_pkey;

ALTER INDEX public.deliveries_of_tenant ATTACH PARTITION public.deliveries_20261123_tenant_id_day_id_idx;

ALTER INDEX public.deliveries_dead ATTACH PARTITION public.deliveries_20261123_tenant_id_day_id_idx1;

ALTER INDEX public.deliveries_unclaimed ATTACH PARTITION public.deliveries_20261123_tenant_id_id_idx;

ALTER INDEX public.deliveries_unstarted ATTACH PARTITION public.deliveries_20261124_claimed_at_idx;

ALTER INDEX public.deliveries_of_event ATTACH PARTITION public.deliveries_20261124_event_id_idx;

ALTER INDEX public.deliveries_expiring ATTACH PARTITION public.deliveries_20261124_expires_at_idx;

ALTER INDEX public.deliveries_uncarried ATTACH PARTITION public.deliveries_20261124_next_attempt_at_idx;

ALTER INDEX public.deliveries_carried_due ATTACH PARTITION public.deliveries_20261124_next_attempt_at_idx1;

ALTER INDEX public.deliveries_pkey ATTACH PARTITION public.deliveries_20261124_pkey;

ALTER INDEX public.deliveries_of_tenant ATTACH PARTITION public.deliveries_20261124_tenant_id_day_id_idx;

ALTER INDEX public.deliveries_dead ATTACH PARTITION public.deliveries_20261124_tenant_id_day_id_idx1;

ALTER INDEX public.deliveries_unclaimed ATTACH PARTITION public.deliveries_20261124_tenant_id_id_idx;

ALTER INDEX public.deliveries_unstarted ATTACH PARTITION public.deliveries_20261125_claimed_at_idx;

ALTER INDEX public.deliveries_of_event ATTACH PARTITION public.deliveries_20261125_event_id_idx;

ALTER INDEX public.deliveries_expiring ATTACH PARTITION public.deliveries_20261125_expires_at_idx;

ALTER INDEX public.deliveries_uncarried ATTACH PARTITION public.deliveries_20261125_next_attempt_at_idx;

ALTER INDEX public.deliveries_carried_due ATTACH PARTITION public.deliveries_20261125_next_attempt_at_idx1;

ALTER INDEX public.deliveries_pkey ATTACH PARTITION public.deliveries_20261125_pkey;

ALTER INDEX public.deliveries_of_tenant ATTACH PARTITION public.deliveries_20261125_tenant_id_day_id_idx;

ALTER INDEX public.deliveries_dead ATTACH PARTITION public.deliveries_20261125_tenant_id_day_id_idx1;

ALTER INDEX public.deliveries_unclaimed ATTACH PARTITION public.deliveries_20261125_tenant_id_id_idx;

ALTER INDEX public.deliveries_unstarted ATTACH PARTITION public.deliveries_20261126_claimed_at_idx;

ALTER INDEX public.deliveries_of_event ATTACH PARTITION public.deliveries_20261126_event_id_idx;

ALTER INDEX public.deliveries_expiring ATTACH PARTITION public.deliveries_20261126_expires_at_idx;

ALTER INDEX public.deliveries_uncarried ATTACH PARTITION public.deliveries_20261126_next_attempt_at_idx;

ALTER INDEX public.deliveries_carried_due ATTACH PARTITION public.deliveries_20261126_next_attempt_at_idx1;

ALTER INDEX public.deliveries_pkey ATTACH PARTITION public.deliveries_20261126_pkey;

ALTER INDEX public.deliveries_of_tenant ATTACH PARTITION public.deliveries_20261126_tenant_id_day_id_idx;

ALTER INDEX public.deliveries_dead ATTACH PARTITION public.deliveries_20261126_tenant_id_day_id_idx1;

ALTER INDEX public.deliveries_unclaimed ATTACH PARTITION public.deliveries_20261126_tenant_id_id_idx;

ALTER INDEX public.deliveries_unstarted ATTACH PARTITION public.deliveries_20261127_claimed_at_idx;

ALTER INDEX public.deliveries_of_event ATTACH PARTITION public.deliveries_20261127_event_id_idx;

ALTER INDEX public.deliveries_expiring ATTACH PARTITION public.deliveries_20261127_expires_at_idx;

ALTER INDEX public.deliveries_uncarried ATTACH PARTITION public.deliveries_20261127_next_attempt_at_idx;

ALTER INDEX public.deliveries_carried_due ATTACH PARTITION public.deliveries_20261127_next_attempt_at_idx1;

ALTER INDEX public.deliveries_pkey ATTACH PARTITION public.deliveries_20261127_pkey;

ALTER INDEX public.deliveries_of_tenant ATTACH PARTITION public.deliveries_20261127_tenant_id_day_id_idx;

ALTER INDEX public.deliveries_dead ATTACH PARTITION public.deliveries_20261127_tenant_id_day_id_idx1;

ALTER INDEX public.deliveries_unclaimed ATTACH PARTITION public.deliveries_20261127_tenant_id_id_idx;

ALTER INDEX public.deliveries_unstarted ATTACH PARTITION public.deliveries_default_claimed_at_idx;

ALTER INDEX public.deliveries_of_event ATTACH PARTITION public.deliveries_default_event_id_idx;

ALTER INDEX public.deliveries_expiring ATTACH PARTITION public.deliveries_default_expires_at_idx;

ALTER INDEX public.deliveries_uncarried ATTACH PARTITION public.deliveries_default_next_attempt_at_idx;

ALTER INDEX public.deliveries_carried_due ATTACH PARTITION public.deliveries_default_next_attempt_at_idx1;

ALTER INDEX public.deliveries_pkey ATTACH PARTITION public.deliveries_default_pkey;

ALTER INDEX public.deliveries_of_tenant ATTACH PARTITION public.deliveries_default_tenant_id_day_id_idx;

ALTER INDEX public.deliveries_dead ATTACH PARTITION public.deliveries_default_tenant_id_day_id_idx1;

ALTER INDEX public.deliveries_unclaimed ATTACH PARTITION public.deliveries_default_tenant_id_id_idx;

ALTER INDEX public.events_pkey ATTACH PARTITION public.events_20261119_pkey;

ALTER INDEX public.events_of_tenant ATTACH PARTITION public.events_20261119_tenant_id_day_id_idx;

ALTER INDEX public.events_pkey ATTACH PARTITION public.events_20261120_pkey;

ALTER INDEX public.events_of_tenant ATTACH PARTITION public.events_20261120_tenant_id_day_id_idx;

ALTER INDEX public.events_pkey ATTACH PARTITION public.events_20261121_pkey;

ALTER INDEX public.events_of_tenant ATTACH PARTITION public.events_20261121_tenant_id_day_id_idx;

ALTER INDEX public.events_pkey ATTACH PARTITION public.events_20261122_pkey;

ALTER INDEX public.events_of_tenant ATTACH PARTITION public.events_20261122_tenant_id_day_id_idx;

ALTER INDEX public.events_pkey ATTACH PARTITION public.events_20261123_pkey;

ALTER INDEX public.events_of_tenant ATTACH PARTITION public.events_20261123_tenant_id_day_id_idx;

ALTER INDEX public.events_pkey ATTACH PARTITION public.events_20261124_pkey;

ALTER INDEX public.events_of_tenant ATTACH PARTITION public.events_20261124_tenant_id_day_id_idx;

ALTER INDEX public.events_pkey ATTACH PARTITION public.events_20261125_pkey;

ALTER INDEX public.events_of_tenant ATTACH PARTITION public.events_20261125_tenant_id_day_id_idx;

ALTER INDEX public.events_pkey ATTACH PARTITION public.events_20261126_pkey;

ALTER INDEX public.events_of_tenant ATTACH PARTITION public.events_20261126_tenant_id_day_id_idx;

ALTER INDEX public.events_pkey ATTACH PARTITION public.events_20261127_pkey;

ALTER INDEX public.events_of_tenant ATTACH PARTITION public.events_20261127_tenant_id_day_id_idx;

ALTER INDEX public.events_pkey ATTACH PARTITION public.events_default_pkey;

ALTER INDEX public.events_of_tenant ATTACH PARTITION public.events_default_tenant_id_day_id_idx;

ALTER TABLE ONLY public.credentials
    ADD CONSTRAINT credentials_principal_id_fkey FOREIGN KEY (principal_id) REFERENCES public.principals(id);

ALTER TABLE ONLY public.credentials
    ADD CONSTRAINT credentials_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenants(id);

ALTER TABLE ONLY public.endpoint_health
    ADD CONSTRAINT endpoint_health_endpoint_id_fkey FOREIGN KEY (endpoint_id) REFERENCES public.endpoints(id);

ALTER TABLE ONLY public.endpoint_secrets
    ADD CONSTRAINT endpoint_secrets_endpoint_id_fkey FOREIGN KEY (endpoint_id) REFERENCES public.endpoints(id);

ALTER TABLE ONLY public.endpoint_secrets
    ADD CONSTRAINT endpoint_secrets_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenants(id);

ALTER TABLE ONLY public.endpoints
    ADD CONSTRAINT endpoints_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenants(id);

ALTER TABLE ONLY public.idempotency_keys
    ADD CONSTRAINT idempotency_keys_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenants(id);

ALTER TABLE ONLY public.principals
    ADD CONSTRAINT principals_role_id_fkey FOREIGN KEY (role_id) REFERENCES public.roles(id);

ALTER TABLE ONLY public.principals
    ADD CONSTRAINT principals_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenants(id);

ALTER TABLE ONLY public.roles
    ADD CONSTRAINT roles_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenants(id);

ALTER TABLE ONLY public.secret_versions
    ADD CONSTRAINT secret_versions_credential_id_fkey FOREIGN KEY (credential_id) REFERENCES public.credentials(id);

ALTER TABLE ONLY public.secret_versions
    ADD CONSTRAINT secret_versions_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenants(id);

ALTER TABLE public.attempts ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.credentials ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.deliveries ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.endpoint_secrets ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.endpoints ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.events ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.idempotency_keys ENABLE ROW LEVEL SECURITY;

CREATE POLICY ingest_rows ON public.deliveries TO signet_ingest USING (true) WITH CHECK (true);

CREATE POLICY ingest_rows ON public.endpoints FOR SELECT TO signet_ingest USING (true);

CREATE POLICY ingest_rows ON public.events TO signet_ingest USING (true) WITH CHECK (true);

CREATE POLICY ingest_rows ON public.idempotency_keys TO signet_ingest USING (true) WITH CHECK (true);

CREATE POLICY ingest_rows ON public.tenants FOR SELECT TO signet_ingest USING (true);

CREATE POLICY issuer_rows ON public.credentials FOR SELECT TO signet_issuer USING (true);

CREATE POLICY issuer_rows ON public.principals FOR SELECT TO signet_issuer USING (true);

CREATE POLICY issuer_rows ON public.secret_versions TO signet_issuer USING (true) WITH CHECK (true);

CREATE POLICY issuer_rows ON public.tenants FOR SELECT TO signet_issuer USING (true);

CREATE POLICY operator_rows ON public.credentials TO signet_operator USING (true) WITH CHECK (true);

CREATE POLICY operator_rows ON public.principals TO signet_operator USING (true) WITH CHECK (true);

CREATE POLICY operator_rows ON public.roles TO signet_operator USING (true) WITH CHECK (true);

CREATE POLICY operator_rows ON public.secret_versions TO signet_operator USING (true) WITH CHECK (true);

CREATE POLICY operator_rows ON public.tenants TO signet_operator USING (true) WITH CHECK (true);

ALTER TABLE public.principals ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.roles ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.secret_versions ENABLE ROW LEVEL SECURITY;

CREATE POLICY tenant_rows ON public.attempts TO signet_api USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.credentials FOR SELECT TO signet_api USING ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.deliveries TO signet_api USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.endpoint_secrets TO signet_api USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.endpoints TO signet_api USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.events TO signet_api USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.idempotency_keys TO signet_api USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.principals FOR SELECT TO signet_api USING ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.roles FOR SELECT TO signet_api USING ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.tenants FOR SELECT TO signet_api USING ((id = public.current_tenant()));

ALTER TABLE public.tenants ENABLE ROW LEVEL SECURITY;

CREATE POLICY worker_rows ON public.attempts TO signet_worker USING (true) WITH CHECK (true);

CREATE POLICY worker_rows ON public.deliveries TO signet_worker USING (true) WITH CHECK (true);

CREATE POLICY worker_rows ON public.endpoint_secrets FOR SELECT TO signet_worker USING (true);

CREATE POLICY worker_rows ON public.endpoints TO signet_worker USING (true) WITH CHECK (true);

CREATE POLICY worker_rows ON public.events FOR SELECT TO signet_worker USING (true);

CREATE POLICY worker_rows ON public.idempotency_keys TO signet_worker USING (true);

CREATE POLICY worker_rows ON public.tenants FOR SELECT TO signet_worker USING (true);

GRANT ALL ON SCHEMA public TO signet_owner;
GRANT USAGE ON SCHEMA public TO signet_api;
GRANT USAGE ON SCHEMA public TO signet_ingest;
GRANT USAGE ON SCHEMA public TO signet_worker;
GRANT USAGE ON SCHEMA public TO signet_issuer;
GRANT USAGE ON SCHEMA public TO signet_operator;
GRANT USAGE ON SCHEMA public TO signet_audit;

REVOKE ALL ON FUNCTION public.drop_day_partitions(old_day date, at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION public.drop_day_partitions(old_day date, at timestamp with time zone) TO signet_worker;

REVOKE ALL ON FUNCTION public.ensure_day_partitions(first_day date, days integer) FROM PUBLIC;
GRANT ALL ON FUNCTION public.ensure_day_partitions(first_day date, days integer) TO signet_worker;

REVOKE ALL ON FUNCTION public.partition_days() FROM PUBLIC;
GRANT ALL ON FUNCTION public.partition_days() TO signet_worker;

REVOKE ALL ON FUNCTION public.purge_default_partitions(before date, most integer) FROM PUBLIC;
GRANT ALL ON FUNCTION public.purge_default_partitions(before date, most integer) TO signet_worker;

GRANT SELECT ON TABLE public.attempts TO signet_api;
GRANT SELECT,INSERT,UPDATE ON TABLE public.attempts TO signet_worker;

GRANT SELECT ON TABLE public.credentials TO signet_api;
GRANT SELECT,INSERT,UPDATE ON TABLE public.credentials TO signet_operator;
GRANT SELECT ON TABLE public.credentials TO signet_issuer;

GRANT SELECT,UPDATE ON TABLE public.deliveries TO signet_api;
GRANT SELECT,INSERT ON TABLE public.deliveries TO signet_ingest;
GRANT SELECT,UPDATE ON TABLE public.deliveries TO signet_worker;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.endpoint_health TO signet_worker;

GRANT SELECT,INSERT,UPDATE ON TABLE public.endpoint_secrets TO signet_api;
GRANT SELECT ON TABLE public.endpoint_secrets TO signet_worker;

GRANT SELECT,INSERT,UPDATE ON TABLE public.endpoints TO signet_api;
GRANT SELECT,UPDATE ON TABLE public.endpoints TO signet_worker;

GRANT SELECT(id) ON TABLE public.endpoints TO signet_ingest;

GRANT SELECT(tenant_id) ON TABLE public.endpoints TO signet_ingest;

GRANT SELECT(event_types) ON TABLE public.endpoints TO signet_ingest;

GRANT SELECT(state) ON TABLE public.endpoints TO signet_ingest;

GRANT SELECT ON TABLE public.events TO signet_api;
GRANT SELECT,INSERT ON TABLE public.events TO signet_ingest;
GRANT SELECT ON TABLE public.events TO signet_worker;

GRANT SELECT,INSERT,UPDATE ON TABLE public.idempotency_keys TO signet_api;
GRANT SELECT,INSERT,UPDATE ON TABLE public.idempotency_keys TO signet_ingest;
GRANT DELETE ON TABLE public.idempotency_keys TO signet_worker;

GRANT SELECT(tenant_id) ON TABLE public.idempotency_keys TO signet_worker;

GRANT SELECT(route) ON TABLE public.idempotency_keys TO signet_worker;

GRANT SELECT(key) ON TABLE public.idempotency_keys TO signet_worker;

GRANT SELECT(created_at) ON TABLE public.idempotency_keys TO signet_worker;

GRANT SELECT ON TABLE public.principals TO signet_api;
GRANT SELECT,INSERT,UPDATE ON TABLE public.principals TO signet_operator;
GRANT SELECT ON TABLE public.principals TO signet_issuer;

GRANT SELECT ON TABLE public.roles TO signet_api;
GRANT SELECT,INSERT,UPDATE ON TABLE public.roles TO signet_operator;

GRANT SELECT ON TABLE public.schema_migrations TO signet_api;
GRANT SELECT ON TABLE public.schema_migrations TO signet_ingest;
GRANT SELECT ON TABLE public.schema_migrations TO signet_worker;
GRANT SELECT ON TABLE public.schema_migrations TO signet_issuer;
GRANT SELECT ON TABLE public.schema_migrations TO signet_operator;
GRANT SELECT ON TABLE public.schema_migrations TO signet_audit;

GRANT SELECT,INSERT,UPDATE ON TABLE public.secret_versions TO signet_operator;
GRANT SELECT ON TABLE public.secret_versions TO signet_issuer;

GRANT UPDATE(mac) ON TABLE public.secret_versions TO signet_issuer;

GRANT UPDATE(mac_key_id) ON TABLE public.secret_versions TO signet_issuer;

GRANT UPDATE(last_used_at) ON TABLE public.secret_versions TO signet_issuer;

GRANT SELECT,INSERT,UPDATE ON TABLE public.signing_keys TO signet_operator;
GRANT SELECT ON TABLE public.signing_keys TO signet_issuer;

GRANT SELECT ON TABLE public.tenants TO signet_api;
GRANT SELECT,INSERT,UPDATE ON TABLE public.tenants TO signet_operator;
GRANT SELECT ON TABLE public.tenants TO signet_issuer;
GRANT SELECT ON TABLE public.tenants TO signet_worker;

GRANT SELECT(id) ON TABLE public.tenants TO signet_ingest;

GRANT SELECT(state) ON TABLE public.tenants TO signet_ingest;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.workers TO signet_worker;
