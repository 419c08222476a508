-- The functions `push_summaries`, `record_push` and `push_is_settled` have changed: users of rejected pushes and users who may have been
-- reached are counted apart from those who were not sent to.
SELECT 1;
