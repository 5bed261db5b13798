-- A delivery has the instant of its event in its id, in every release, so the primary key finds the deliveries of an event
-- (decision 0024). The index by event had two entries per delivery.
DROP INDEX deliveries_of_event;

-- Each page keeps room for the versions of its rows that the outcomes write. On the same page that version is logged as
-- the difference to the first one, and no other page is locked for it. Applies to days without a partition yet.
CREATE OR REPLACE FUNCTION ensure_day_partitions(first_day date, days int) RETURNS int
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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
            'CREATE TABLE public.%I PARTITION OF public.%I FOR VALUES FROM (%L) TO (%L) WITH (fillfactor = %s)',
            parent || '_' || to_char(first, 'YYYYMMDD'), parent, first, first + 1,
            CASE parent WHEN 'deliveries' THEN 45 ELSE 100 END
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
