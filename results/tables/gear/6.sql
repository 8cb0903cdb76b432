-- Time, peak memory and throughput of each method by batch, and the largest batch that fits.
WITH
  run AS (
    SELECT
      e.label, e.position, e.key, e.model, t.n_prompt_tokens, t.n_new_tokens, t.batch, median(t.seconds) AS seconds,
      count(*) AS n
    FROM entry AS e
    JOIN timing AS t ON t.cell_key = e.key AND t.phase = 'total' AND t.part = 'all'
    GROUP BY e.key, t.n_prompt_tokens, t.n_new_tokens, t.batch),
  named AS (
    SELECT
      *, model || ', ' || n_prompt_tokens || ' + ' || n_new_tokens || ' tokens' AS shape,
      label || ', batch ' || batch AS name, position * 100000 + batch AS place
    FROM run),
  peak AS (
    SELECT m.cell_key, m.n_prompt_tokens, m.n_new_tokens, m.batch, max(m.bytes) / 1073741824.0 AS gib
    FROM memory AS m
    WHERE m.part = 'peak'
    GROUP BY m.cell_key, m.n_prompt_tokens, m.n_new_tokens, m.batch),
  largest AS (
    SELECT
      e.label, e.model, e.key, c.n_tokens, c.value,
      'batch within ' || printf('%g GB, ', c.limit_bytes / 1e9) || c.how AS name
    FROM entry AS e
    JOIN capacity AS c ON c.cell_key = e.key AND c.kind = 'max_batch')
SELECT
  shape AS row_group, name AS row, place AS row_order, 'batch' AS "column", 0 AS column_order, batch AS value,
  NULL AS n, key AS cells
FROM named
UNION ALL
SELECT shape, name, place, 'time', 1, seconds, n, key FROM named
UNION ALL
SELECT shape, name, place, 'peak', 2, gib, NULL, key
FROM named JOIN peak ON peak.cell_key = named.key AND peak.n_prompt_tokens = named.n_prompt_tokens
  AND peak.n_new_tokens = named.n_new_tokens AND peak.batch = named.batch
UNION ALL
SELECT shape, name, place, 'throughput', 3, batch * n_new_tokens / seconds, n, key FROM named
UNION ALL
SELECT named.shape, named.name, named.place, largest.name, 4, largest.value, NULL, largest.key
FROM named JOIN largest
  ON largest.label = named.label AND largest.model = named.model
  AND largest.n_tokens = named.n_prompt_tokens + named.n_new_tokens;
