-- region schema
CREATE TABLE inbox (
  id text PRIMARY KEY,
  event jsonb NOT NULL,
  due_at timestamptz NOT NULL DEFAULT now(),
  done_at timestamptz
);
CREATE INDEX inbox_due ON inbox (due_at) WHERE done_at IS NULL;
-- endregion
