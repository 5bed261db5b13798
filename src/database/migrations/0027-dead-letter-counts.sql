-- Dead letters in numbers, by endpoint and class of failure: kept, as counting a million takes too long. Whatever changes
-- the state of a delivery leaves a line here; the worker folds the lines into the counts.
CREATE TABLE dead_letter_changes (
  id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id   text COLLATE "C" NOT NULL,
  endpoint_id text COLLATE "C" NOT NULL,
  delivery_id text COLLATE "C" NOT NULL,
  event_type  text NOT NULL,
  reason      text NOT NULL,
  -- '' where no attempt was made.
  last_error  text NOT NULL,
  -- 1: it came into the queue; -1: it left.
  change      smallint NOT NULL
);
CREATE INDEX dead_letter_changes_of_tenant ON dead_letter_changes (tenant_id);

CREATE TABLE dead_letter_counts (
  tenant_id   text COLLATE "C" NOT NULL,
  endpoint_id text COLLATE "C" NOT NULL,
  reason      text NOT NULL,
  last_error  text NOT NULL,
  letters     int NOT NULL,
  PRIMARY KEY (tenant_id, endpoint_id, reason, last_error)
);

-- What the tenant is to be told of, once it is due.
CREATE TABLE dead_letter_notices (
  kind        text NOT NULL CONSTRAINT dead_letter_notices_kind CHECK (kind IN ('dead_lettered', 'expiring')),
  endpoint_id text COLLATE "C" NOT NULL,
  bucket      timestamptz NOT NULL,
  tenant_id   text COLLATE "C" NOT NULL,
  letters     int NOT NULL,
  -- The first 100.
  ids         text[] NOT NULL,
  due_at      timestamptz NOT NULL,
  expires_at  timestamptz,
  PRIMARY KEY (kind, endpoint_id, bucket)
);
CREATE INDEX dead_letter_notices_due ON dead_letter_notices (due_at);

-- Up to when tenants have been told of what expires.
CREATE TABLE dead_letter_watch (
  single      boolean PRIMARY KEY DEFAULT true CHECK (single),
  told_until  timestamptz NOT NULL
);
INSERT INTO dead_letter_watch (told_until) VALUES ('-infinity');

ALTER TABLE deliveries NO FORCE ROW LEVEL SECURITY;
INSERT INTO dead_letter_counts (tenant_id, endpoint_id, reason, last_error, letters)
  SELECT tenant_id, endpoint_id, coalesce(reason, 'attempts_exhausted'), coalesce(last_error, ''), count(*)
  FROM deliveries WHERE state = 'DEAD_LETTERED' GROUP BY 1, 2, 3, 4;
ALTER TABLE deliveries FORCE ROW LEVEL SECURITY;

ALTER TABLE dead_letter_changes ENABLE ROW LEVEL SECURITY;
ALTER TABLE dead_letter_changes FORCE ROW LEVEL SECURITY;
ALTER TABLE dead_letter_counts ENABLE ROW LEVEL SECURITY;
ALTER TABLE dead_letter_counts FORCE ROW LEVEL SECURITY;
ALTER TABLE dead_letter_notices ENABLE ROW LEVEL SECURITY;
ALTER TABLE dead_letter_notices FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON dead_letter_changes TO signet_api
  USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY tenant_rows ON dead_letter_counts FOR SELECT TO signet_api USING (tenant_id = current_tenant());
CREATE POLICY ingest_rows ON dead_letter_changes FOR INSERT TO signet_ingest WITH CHECK (true);
-- The owner's, when it drops a day.
CREATE POLICY owner_rows ON dead_letter_changes FOR INSERT TO signet_owner WITH CHECK (true);
CREATE POLICY worker_rows ON dead_letter_changes TO signet_worker USING (true) WITH CHECK (true);
CREATE POLICY worker_rows ON dead_letter_counts TO signet_worker USING (true) WITH CHECK (true);
CREATE POLICY worker_rows ON dead_letter_notices TO signet_worker USING (true) WITH CHECK (true);
GRANT INSERT ON dead_letter_changes TO signet_api, signet_ingest, signet_worker;
GRANT SELECT ON dead_letter_changes, dead_letter_counts TO signet_api;
-- UPDATE only for FOR UPDATE SKIP LOCKED.
GRANT SELECT, UPDATE, DELETE ON dead_letter_changes TO signet_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON dead_letter_counts, dead_letter_notices TO signet_worker;
GRANT SELECT, UPDATE ON dead_letter_watch TO signet_worker;

CREATE FUNCTION note_dead_letter() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  came boolean := NEW.state = 'DEAD_LETTERED';
  letter public.deliveries;
BEGIN
  letter := CASE WHEN came THEN NEW ELSE OLD END;
  INSERT INTO public.dead_letter_changes (tenant_id, endpoint_id, delivery_id, event_type, reason, last_error, change)
  VALUES (letter.tenant_id, letter.endpoint_id, letter.id, letter.event_type, coalesce(letter.reason, 'attempts_exhausted'),
    coalesce(letter.last_error, ''), CASE WHEN came THEN 1 ELSE -1 END);
  RETURN NULL;
END $$;
-- The conditions are all that deliveries pay that are no dead letters.
CREATE TRIGGER dead_letters_come AFTER INSERT ON deliveries FOR EACH ROW
  WHEN (NEW.state = 'DEAD_LETTERED' AND current_setting('signet.moving', true) IS DISTINCT FROM 'on')
  EXECUTE FUNCTION note_dead_letter();
CREATE TRIGGER dead_letters_come_and_go AFTER UPDATE OF state ON deliveries FOR EACH ROW
  WHEN ((OLD.state = 'DEAD_LETTERED') <> (NEW.state = 'DEAD_LETTERED'))
  EXECUTE FUNCTION note_dead_letter();

-- As in migration 0004; dead letters whose week is over leave the queue first, and those that move were counted before.
CREATE OR REPLACE FUNCTION drop_day_partitions(old_day date, at timestamptz) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
  suffix text := to_char(old_day, 'YYYYMMDD');
  parent text;
BEGIN
  IF to_regclass('public.deliveries_' || suffix) IS NULL THEN
    RETURN false;
  END IF;
  EXECUTE format('UPDATE public.%I SET state = ''EXPIRED'' WHERE state = ''DEAD_LETTERED'' AND expires_at <= $1',
    'deliveries_' || suffix) USING at;
  FOREACH parent IN ARRAY ARRAY['attempts', 'deliveries', 'events'] LOOP
    EXECUTE format('ALTER TABLE public.%I DETACH PARTITION public.%I', parent, parent || '_' || suffix);
  END LOOP;
  EXECUTE format(
    'CREATE TEMP TABLE signet_open ON COMMIT DROP AS SELECT id, event_id FROM public.%I
       WHERE state IN (''QUEUED'', ''RETRYING'') OR (state = ''DEAD_LETTERED'' AND expires_at > $1)',
    'deliveries_' || suffix
  ) USING at;
  PERFORM set_config('signet.moving', 'on', true);
  EXECUTE format('INSERT INTO public.events_default SELECT * FROM public.%I WHERE id IN (SELECT event_id FROM pg_temp.signet_open)',
    'events_' || suffix);
  EXECUTE format('INSERT INTO public.deliveries_default SELECT * FROM public.%I WHERE id IN (SELECT id FROM pg_temp.signet_open)',
    'deliveries_' || suffix);
  EXECUTE format('INSERT INTO public.attempts_default SELECT * FROM public.%I WHERE delivery_id IN (SELECT id FROM pg_temp.signet_open)',
    'attempts_' || suffix);
  PERFORM set_config('signet.moving', 'off', true);
  DROP TABLE pg_temp.signet_open;
  FOREACH parent IN ARRAY ARRAY['attempts', 'deliveries', 'events'] LOOP
    EXECUTE format('DROP TABLE public.%I', parent || '_' || suffix);
  END LOOP;
  RETURN true;
END $$;
