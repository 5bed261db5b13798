-- Where an event came from, for traces (W3C Trace Context); null unless traces are on. Without them nothing reads or
-- writes it: a null takes no room in a row that has others.
ALTER TABLE events ADD COLUMN traceparent text CONSTRAINT events_traceparent CHECK (length(traceparent) <= 55);
