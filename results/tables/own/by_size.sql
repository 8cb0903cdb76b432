-- One row per compressor and model, ordered by the measured size of its caches for the shortest synthetic prompt that the
-- experiment names (`sizes`), and grouped into size budgets; scores by task, for running text KL and top-1 against full
-- precision.
WITH
  part AS (
    SELECT
      *, min(position),
      CASE WHEN (SELECT count(DISTINCT model) FROM entry) = 1 THEN label ELSE label || ', ' || model END AS name
    FROM entry
    WHERE n_ok > 0
    GROUP BY label, key),
  sizes AS (
    SELECT
      p.name, s.n_tokens, 100.0 * min(s.kv_bytes) / s.kv_bytes_fp16 AS size,
      8.0 * (s.kv_bytes - s.recent_bytes) / nullif(s.n_encoded_numbers, 0) AS bits, group_concat(p.key, ' ') AS cells
    FROM part AS p JOIN cell_size AS s ON s.cell_key = p.key
    WHERE s.kv_bytes IS NOT NULL
      AND s.n_tokens = (
        SELECT min(n_tokens) FROM cell_size WHERE cell_key IN (SELECT key FROM part AS other WHERE other.model = p.model))
    GROUP BY p.name),
  placed AS (
    SELECT
      *, CASE
        WHEN size > 75 THEN '16 bits' WHEN size >= 37.5 THEN '8 bits, or half of the tokens'
        WHEN size >= 21.875 THEN '4 bits, or a quarter' WHEN size >= 15.625 THEN '3 bits' ELSE '2 bits, or an eighth'
      END AS level
    FROM sizes),
  reading AS (SELECT *, count(*) AS n_cells FROM part WHERE measure = 'top-1' GROUP BY name, task),
  answering AS (
    SELECT p.*, count(*) AS n_cells
    FROM part AS p JOIN v_cell AS c ON c.key = p.key
    WHERE p.n_scores > 0 AND p.measure <> 'top-1' AND (p.is_lossy = 0 OR c.n_not_encoded < p.n_ok)
    GROUP BY p.name, p.task)
SELECT
  level AS row_group, name AS row, -size AS row_order, 'size' AS "column", 0 AS column_order, size AS value,
  NULL AS low, NULL AS high, NULL AS n, cells
FROM placed
UNION ALL
SELECT level, name, -size, 'bits', 1, bits, NULL, NULL, NULL, cells FROM placed
UNION ALL
SELECT
  level, name, -size, 'KV ' || task, 2, CASE WHEN n_cells = 1 THEN 100.0 * kv_bytes / kv_bytes_fp16 END, NULL, NULL,
  n_scores, key
FROM reading JOIN placed USING (name)
UNION ALL
SELECT
  level, name, -size, 'KL ' || task, 3, CASE WHEN n_cells = 1 THEN 1000 * kl END,
  CASE WHEN is_lossy AND n_cells = 1 THEN 1000 * kl_low END, CASE WHEN is_lossy AND n_cells = 1 THEN 1000 * kl_high END,
  n_scores, key
FROM reading JOIN placed USING (name)
UNION ALL
SELECT
  level, name, -size, 'top-1 ' || task, 4, CASE WHEN n_cells = 1 THEN accuracy END,
  CASE WHEN is_lossy AND n_cells = 1 THEN low END, CASE WHEN is_lossy AND n_cells = 1 THEN high END, n_scores, key
FROM reading JOIN placed USING (name)
UNION ALL
SELECT
  level, name, -size, task, 5, CASE WHEN n_cells = 1 THEN accuracy END, CASE WHEN n_cells = 1 THEN low END,
  CASE WHEN n_cells = 1 THEN high END, n_scores, key
FROM answering JOIN placed USING (name);
