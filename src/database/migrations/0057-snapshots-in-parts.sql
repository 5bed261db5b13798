-- A snapshot of a million revocations has 50 MB. As one row, it kept a connection silent for longer than connections may
-- be. One row for each 5,000 revocations can be fetched part by part.
DROP FUNCTION revocation_snapshot();

-- All live revocations, in parts to be joined by line feeds, each with the proof that they are all.
CREATE FUNCTION revocation_snapshot() RETURNS TABLE (clock bigint, epoch uuid, head text, lines text, codes text)
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  state public.rev_clock;
  parts text[];
  proof text;
BEGIN
  SELECT * INTO STRICT state FROM public.rev_clock WHERE id = 1;
  SELECT coalesce(array_agg(part ORDER BY number), ARRAY['']) INTO parts FROM (
    SELECT number, string_agg(line, E'\n' ORDER BY seq) AS part FROM (
      SELECT r.seq, public.revocation_line(r.seq, r.kind, r.target, r.at, r.issued_before) AS line,
             (row_number() OVER (ORDER BY r.seq) - 1) / 5000 AS number
        FROM public.revocations r
       WHERE r.kind <> 'policy' AND (r.expires_at IS NULL OR r.expires_at > clock_timestamp())
    ) AS live GROUP BY number
  ) AS grouped;
  proof := public.lease_codes(concat_ws(' ', 'signet-snapshot-1', state.epoch, state.seq, encode(state.head, 'hex'),
    encode(sha256(convert_to(array_to_string(parts, E'\n'), 'UTF8')), 'hex')));
  RETURN QUERY SELECT state.seq, state.epoch, encode(state.head, 'hex'), part, proof
    FROM unnest(parts) WITH ORDINALITY AS p (part, number) ORDER BY number;
END $$;
REVOKE ALL ON FUNCTION revocation_snapshot() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION revocation_snapshot() TO signet_edge;
