-- Lists of the events of one type: the few of a rare one among very many.
CREATE INDEX events_type ON events (type, id);
