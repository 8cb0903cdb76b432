-- One row per stage of each composed compressor's cell: its size and time over the ok samples. Stage 0 is the
-- composition itself: tokens that wait for their block to fill, and time outside the stages. :experiment is a name;
-- 'all' or NULL: every cell. KV size is a ratio of sums, to the same tokens at 16 bits.
WITH
  composed AS (
    SELECT key, model, task, plugin, options_label
    FROM cell
    WHERE key IN (SELECT cell_key FROM stage)
      AND (ifnull(:experiment, 'all') = 'all' AND key NOT IN (SELECT cell_key FROM v_older)
           OR key IN (SELECT cell_key FROM experiment_cell WHERE experiment = :experiment))),
  part AS (
    SELECT cell_key, stage, plugin, place FROM stage
    UNION ALL
    SELECT key, 0, '', 'itself' FROM composed),
  ok AS (SELECT cell_key, sample, kv_bytes_fp16 FROM sample WHERE status = 'ok'),
  stored AS (
    SELECT b.cell_key, b.stage, sum(b.bytes) AS bytes
    FROM kv_bytes AS b JOIN ok USING (cell_key, sample)
    GROUP BY b.cell_key, b.stage),
  took AS (
    SELECT t.cell_key, t.stage, sum(t.encode_seconds) AS encode_seconds, sum(t.attend_seconds) AS attend_seconds
    FROM stage_time AS t JOIN ok USING (cell_key, sample)
    GROUP BY t.cell_key, t.stage),
  exact AS (SELECT cell_key, sum(kv_bytes_fp16) AS bytes FROM ok GROUP BY cell_key)
SELECT
  c.model, c.task, c.plugin AS compressor, c.options_label AS options, p.stage, p.plugin, p.place,
  ifnull(stored.bytes, 0) AS bytes,
  round(100.0 * ifnull(stored.bytes, 0) / exact.bytes, 2) AS "KV size [%]",
  took.encode_seconds AS "encode [s]",
  took.attend_seconds AS "attend [s]"
FROM composed AS c
JOIN part AS p ON p.cell_key = c.key
LEFT JOIN stored ON stored.cell_key = c.key AND stored.stage = p.stage
LEFT JOIN took ON took.cell_key = c.key AND took.stage = p.stage
LEFT JOIN exact ON exact.cell_key = c.key
ORDER BY c.model, c.task, c.plugin, c.options_label, c.key, p.stage;
