-- New tokens of all sequences per second, including prefill.
WITH
  took AS (
    SELECT t.cell_key, t.n_prompt_tokens, t.n_new_tokens, t.batch, t.repeat, t.seconds
    FROM timing AS t
    WHERE t.phase = 'total' AND t.part = 'all' AND t.cell_key IN (SELECT key FROM entry))
SELECT
  s.label AS series, t.batch AS x, t.batch * t.n_new_tokens / median(t.seconds) AS y,
  t.batch * t.n_new_tokens / max(t.seconds) AS low, t.batch * t.n_new_tokens / min(t.seconds) AS high
FROM entry AS s JOIN took AS t ON t.cell_key = s.key
GROUP BY s.key, t.batch
ORDER BY s.position, t.batch;
