-- Counts lie in partitions of days from migration 0078 on (decision 41). What is stored until then becomes one of them, so
-- its rows must end before a day. Eight days are time enough for the two migrations after this one, and for older
-- workers, which make no partitions. If a clock was wrong, stored hours may be later than that.
CREATE POLICY owner_reads ON delivery_counts FOR SELECT TO signet_owner USING (true);
DO $$ BEGIN
  EXECUTE format('ALTER TABLE delivery_counts ADD CONSTRAINT delivery_counts_until CHECK (hour < %L) NOT VALID',
    date_trunc('day', greatest(now() + interval '8 days', (SELECT max(hour) FROM delivery_counts) + interval '1 day'), 'UTC'));
END $$;
DROP POLICY owner_reads ON delivery_counts;
