-- The key that a checkpoint was signed with, as name+id+key, for whoever has none yet; null where the signer did not say.
ALTER TABLE clog_checkpoint ADD COLUMN verifier_key text
  CONSTRAINT clog_checkpoint_verifier_key CHECK (length(verifier_key) BETWEEN 1 AND 1024);
