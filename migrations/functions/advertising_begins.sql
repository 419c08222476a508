-- Returns the beginning of the next hours for advertising after a moment, by default the present one; NULL for a moment within
-- such hours.
CREATE OR REPLACE FUNCTION advertising_begins(hours text[], moment timestamptz DEFAULT clock_timestamp()) RETURNS timestamptz
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT CASE
            WHEN clock < day + begins THEN day + begins
            ELSE day + interval '1 day' + begins
        END AT TIME ZONE hours[1]
    FROM (
        SELECT clock, date_trunc('day', clock) AS day, hours[2]::interval AS begins
        FROM (SELECT moment AT TIME ZONE hours[1] AS clock) AS zone
    ) AS local
    WHERE advertising_ends(hours, moment) IS NULL
$$;
