-- Calls from Kakao may be stored long after they were received: they wait in a journal while the database is away, and may be stored twice.

-- NULL for rows that are older than this column: they were stored when they were received.
ALTER TABLE link_callbacks ADD COLUMN stored_at timestamptz;
ALTER TABLE link_callbacks ALTER COLUMN stored_at SET DEFAULT now();
ALTER TABLE events ADD COLUMN stored_at timestamptz;
ALTER TABLE events ALTER COLUMN stored_at SET DEFAULT now();

-- Rows lie in the order in which they are stored, so that a summary of each range of pages is enough, and an insert costs nothing more.
CREATE INDEX link_callbacks_stored_at ON link_callbacks USING brin ((COALESCE(stored_at, received_at)));
CREATE INDEX events_stored_at ON events USING brin ((COALESCE(stored_at, received_at)));

-- The dates of the failures that are counted in `failures`, by which a report that is stored again is recognized. Meaningless while
-- `failures` is 0, and never longer than the number of failures after which a device is withdrawn.
ALTER TABLE devices ADD COLUMN failure_dates timestamptz[];
