-- Returns the end of the hours for advertising in which a moment is, by default the present one; NULL outside of them.
--
-- `hours` has a time zone and the times of its days at which advertising may begin and has to end, such as
-- {Asia/Seoul,08:00,21:00}. If the end is not after the beginning, it is on the next day.
CREATE OR REPLACE FUNCTION advertising_ends(hours text[], moment timestamptz DEFAULT clock_timestamp()) RETURNS timestamptz
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT CASE
            WHEN begins < ends AND clock >= day + begins AND clock < day + ends THEN day + ends
            WHEN begins >= ends AND clock >= day + begins THEN day + interval '1 day' + ends
            WHEN begins >= ends AND clock < day + ends THEN day + ends
        END AT TIME ZONE hours[1]
    FROM (
        SELECT clock, date_trunc('day', clock) AS day, hours[2]::interval AS begins, hours[3]::interval AS ends
        FROM (SELECT moment AT TIME ZONE hours[1] AS clock) AS zone
    ) AS local
$$;
