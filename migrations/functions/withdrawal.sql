-- Returns the columns of a device that is withdrawn for a cause. Every statement that withdraws devices uses this definition.
--
-- `updated_at` becomes `withdrawn_at`, so that an older line of an import does not register the device again. If
-- `applies` is false, the columns stay as they are.
--
-- It names no table, so it needs no fixed search_path. With one, it would not be inlined into the statements.
CREATE OR REPLACE FUNCTION withdrawal(device devices, cause text, withdrawn_at timestamptz DEFAULT now(), applies boolean DEFAULT true)
RETURNS TABLE (
    withdrawn boolean, revision bigint, updated_at timestamptz, attempts integer, next_attempt_at timestamptz,
    withdrawal_cause text
)
LANGUAGE sql STABLE
AS $$
    SELECT device.withdrawn OR applies,
        device.revision + CASE WHEN applies AND NOT device.withdrawn THEN 1 ELSE 0 END,
        CASE WHEN applies THEN withdrawn_at ELSE device.updated_at END,
        CASE WHEN applies THEN 0 ELSE device.attempts END,
        CASE WHEN applies THEN now() ELSE device.next_attempt_at END,
        CASE WHEN applies AND NOT device.withdrawn THEN cause ELSE device.withdrawal_cause END
$$;
