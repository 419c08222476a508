-- Apps register at every start what is registered already. Such an update changes nothing that is indexed, and with room on its page
-- it touches no index at all (HOT).

ALTER TABLE devices SET (fillfactor = 85);
