-- Reads the stored counts, and stops neither readers nor writers. So migration 0078 need not read them.
ALTER TABLE delivery_counts VALIDATE CONSTRAINT delivery_counts_until;
