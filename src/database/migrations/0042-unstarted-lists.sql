-- Lists of first attempts whose workflow may not have been started. If their worker ends, another one starts them, so
-- that every delivery has a workflow. Members are found by the bounds of their ids: an index by carrier would cost
-- every delivery an entry.
CREATE TABLE unstarted_lists (
  carrier   text COLLATE "C" PRIMARY KEY,
  worker    text COLLATE "C" NOT NULL,
  first_day date NOT NULL,
  last_day  date NOT NULL,
  first_id  text COLLATE "C" NOT NULL,
  last_id   text COLLATE "C" NOT NULL,
  opened_at timestamptz NOT NULL
);

GRANT SELECT, INSERT, UPDATE, DELETE ON unstarted_lists TO signet_worker;
