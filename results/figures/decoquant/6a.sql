-- Final cache size and model weights, by sequence length.
WITH
  stored AS (
    SELECT cell_key, n_prompt_tokens + n_new_tokens AS n_tokens, part, max(bytes) / 1073741824.0 AS y
    FROM memory
    WHERE cell_key IN (SELECT key FROM entry) AND part IN ('kv', 'weights')
    GROUP BY cell_key, n_prompt_tokens, n_new_tokens, part)
SELECT series, x, y
FROM (
  SELECT 'KV, ' || s.label AS series, h.n_tokens AS x, h.y, s.position
  FROM entry AS s JOIN stored AS h ON h.cell_key = s.key
  WHERE h.part = 'kv'
  UNION ALL
  SELECT 'weights', n_tokens, max(y), 1000
  FROM stored
  WHERE part = 'weights'
  GROUP BY n_tokens)
ORDER BY position, x;
