-- Time of prefill and decoding by the number of new tokens; each number is a separate experiment.
WITH
  took AS (
    SELECT t.cell_key, t.n_prompt_tokens, t.n_new_tokens, t.batch, t.repeat, t.seconds
    FROM timing AS t
    WHERE t.phase = 'total' AND t.part = 'all' AND t.cell_key IN (SELECT key FROM entry))
SELECT s.label AS series, t.n_new_tokens AS x, median(t.seconds) AS y, min(t.seconds) AS low, max(t.seconds) AS high
FROM (SELECT DISTINCT key, label, position FROM entry) AS s JOIN took AS t ON t.cell_key = s.key
GROUP BY s.label, t.n_new_tokens
ORDER BY min(s.position), t.n_new_tokens;
