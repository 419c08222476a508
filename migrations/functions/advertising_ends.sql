-- Returns the end of the present hours for advertising; NULL outside of them.
--
-- `hours` has a time zone and the times of its days at which advertising may begin and has to end, such as
-- {Asia/Seoul,08:00,21:00}. If the end is not after the beginning, it is on the next day.
CREATE OR REPLACE FUNCTION advertising_ends(hours text[]) RETURNS timestamptz
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT CASE
            WHEN begins < ends AND now >= day + begins AND now < day + ends THEN day + ends
            WHEN begins >= ends AND now >= day + begins THEN day + interval '1 day' + ends
            WHEN begins >= ends AND now < day + ends THEN day + ends
        END AT TIME ZONE hours[1]
    FROM (
        SELECT now, date_trunc('day', now) AS day, hours[2]::interval AS begins, hours[3]::interval AS ends
        FROM (SELECT clock_timestamp() AT TIME ZONE hours[1] AS now) AS clock
    ) AS local
$$;
