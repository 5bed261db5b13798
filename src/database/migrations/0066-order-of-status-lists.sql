-- Until this migration, the places of a list had an order of four rounds. Two processes that order one list differently
-- would give a place twice. So older processes reserve places in their own lists: for them, newer lists are full.
ALTER TABLE status_lists
  -- Reserved places of a newer list, whose `reserved` is the size of a list; null in an older list.
  ADD COLUMN taken int,
  ADD CONSTRAINT status_lists_taken CHECK (taken BETWEEN 0 AND 1048576) NOT VALID;
GRANT UPDATE (taken) ON status_lists TO signet_issuer;
