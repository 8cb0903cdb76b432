-- What the caches hold at the end, and the model's weights, by the length of the sequence.
WITH
  held AS (
    SELECT cell_key, n_prompt_tokens + n_new_tokens AS n_tokens, part, max(bytes) / 1073741824.0 AS y
    FROM memory
    WHERE cell_key IN (SELECT key FROM entry) AND part IN ('kv', 'weights')
    GROUP BY cell_key, n_prompt_tokens, n_new_tokens, part)
SELECT series, x, y
FROM (
  SELECT 'KV, ' || s.label AS series, h.n_tokens AS x, h.y, s.position
  FROM entry AS s JOIN held AS h ON h.cell_key = s.key
  WHERE h.part = 'kv'
  UNION ALL
  SELECT 'weights', n_tokens, max(y), 1000
  FROM held
  WHERE part = 'weights'
  GROUP BY n_tokens)
ORDER BY position, x;
