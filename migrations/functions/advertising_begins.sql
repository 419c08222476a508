-- Returns the beginning of the next hours for advertising; NULL within such hours.
CREATE OR REPLACE FUNCTION advertising_begins(hours text[]) RETURNS timestamptz
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT CASE
            WHEN now < day + begins THEN day + begins
            ELSE day + interval '1 day' + begins
        END AT TIME ZONE hours[1]
    FROM (
        SELECT now, date_trunc('day', now) AS day, hours[2]::interval AS begins
        FROM (SELECT clock_timestamp() AT TIME ZONE hours[1] AS now) AS clock
    ) AS local
    WHERE advertising_ends(hours) IS NULL
$$;
