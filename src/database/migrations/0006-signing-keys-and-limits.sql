-- The life of signing keys: published before they sign and after, or revoked. activated_at of a NEXT key is the instant
-- from which it signs; states record what has been carried out, the times say what holds.

ALTER TABLE signing_keys
  ADD COLUMN revoked_at timestamptz,
  ADD COLUMN revocation_reason text;

-- A key that is gone keeps its public half, for the record; its private half is erased.
CREATE UNIQUE INDEX signing_keys_one_next ON signing_keys (state) WHERE state = 'NEXT';

-- Every process that holds keys reads them again, whoever changed them. Keys change once a month.
CREATE FUNCTION notify_signing_keys() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('signet_signing_keys', '');
  RETURN NULL;
END $$;
CREATE TRIGGER signing_keys_changed AFTER INSERT OR UPDATE ON signing_keys
  FOR EACH STATEMENT EXECUTE FUNCTION notify_signing_keys();
