-- What proofs and checkpoints of the compliance log are made of (security decisions E).

-- 256 hashes of one level, as c2sp.org/tlog-tiles cuts a tree: of leaves at level 0, of whole tiles of the level below
-- at the others. A cache: a proof reads a handful of these and not every leaf. They can be made anew from the log.
CREATE TABLE clog_tile (
  log_id int NOT NULL,
  level  int NOT NULL CONSTRAINT clog_tile_level CHECK (level BETWEEN 0 AND 6),
  idx    bigint NOT NULL CONSTRAINT clog_tile_idx CHECK (idx >= 0),
  hashes bytea NOT NULL CONSTRAINT clog_tile_full CHECK (length(hashes) = 8192),
  -- Of the subtree over these hashes: what the level above holds.
  root   bytea NOT NULL,
  PRIMARY KEY (log_id, level, idx)
);

-- Copies, for reading. What counts are those outside this database, which the signer goes by.
CREATE TABLE clog_checkpoint (
  log_id    int NOT NULL,
  seq       bigint NOT NULL CONSTRAINT clog_checkpoint_seq CHECK (seq >= 1),
  size      bigint NOT NULL,
  root      bytea NOT NULL,
  -- A signed note (c2sp.org/tlog-checkpoint).
  note      text NOT NULL,
  signed_at timestamptz NOT NULL,
  PRIMARY KEY (log_id, seq)
);
CREATE TRIGGER clog_checkpoint_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON clog_checkpoint
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE clog_checkpoint ENABLE ALWAYS TRIGGER clog_checkpoint_append_only;

-- Hashes say nothing of an entry, which has a salt: every tenant may have them, in proofs.
GRANT SELECT ON clog_tile, clog_checkpoint TO signet_api, signet_audit, signet_worker;
GRANT INSERT ON clog_tile, clog_checkpoint TO signet_worker;
GRANT SELECT ON clog_head TO signet_worker;

-- Leaf hashes that no tile holds yet, whoever the entries are about; never more than a tile's.
CREATE FUNCTION compliance_leaf_hashes(first bigint, width int) RETURNS bytea
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
  AS $$ SELECT string_agg(leaf_hash, ''::bytea ORDER BY idx) FROM public.clog
    WHERE log_id = 1 AND idx >= first AND idx < first + least(width, 256) $$;
REVOKE ALL ON FUNCTION compliance_leaf_hashes(bigint, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION compliance_leaf_hashes(bigint, int) TO signet_api, signet_audit, signet_worker;
