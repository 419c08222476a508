-- Deletes a quota of which nothing is used any more: the messages that were reserved were not sent. Otherwise messages that
-- Kakao refuses would leave a row for each receiver. The row of the app stays: all reservations lock it.
CREATE OR REPLACE FUNCTION delete_unused_quota() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    DELETE FROM message_quotas
    WHERE (day, quota, sender, receiver) = (NEW.day, NEW.quota, NEW.sender, NEW.receiver);
    RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER message_quotas_released AFTER UPDATE OF used ON message_quotas
FOR EACH ROW WHEN (NEW.used = 0 AND NEW.quota <> 'app') EXECUTE FUNCTION delete_unused_quota();
