-- Times and peak memory of a bench: medians over the warm repeats, with quartiles for the total. :experiment is a name;
-- 'all' or NULL selects every cell. Parts are reported by the compressor, over encoding and attention together.
-- KV read: final cache size, read once per step, over the time of attention; memory: bandwidth of a plain read of that
-- size.
WITH
  of_experiment AS (
    SELECT key, model, task, plugin, options_label
    FROM cell
    WHERE ifnull(:experiment, 'all') = 'all' AND key NOT IN (SELECT cell_key FROM v_older)
       OR key IN (SELECT cell_key FROM experiment_cell WHERE experiment = :experiment)),
  repeated AS (
    SELECT
      cell_key, n_prompt_tokens, n_new_tokens, batch, repeat,
      sum(seconds) FILTER (WHERE phase = 'prefill' AND part = 'all') AS prefill,
      sum(seconds) FILTER (WHERE phase = 'encode' AND part = 'all') AS encode,
      sum(seconds) FILTER (WHERE phase = 'attend' AND part = 'all') AS attend,
      sum(seconds) FILTER (WHERE phase = 'other' AND part = 'all') AS other,
      sum(seconds) FILTER (WHERE phase = 'total' AND part = 'all') AS total,
      sum(seconds) FILTER (WHERE part = 'quantize') AS quantize,
      sum(seconds) FILTER (WHERE part = 'low_rank') AS low_rank,
      sum(seconds) FILTER (WHERE part = 'sparse') AS sparse
    FROM timing
    GROUP BY cell_key, n_prompt_tokens, n_new_tokens, batch, repeat),
  times AS (
    SELECT
      cell_key, n_prompt_tokens, n_new_tokens, batch, count(*) AS n,
      median(prefill) AS prefill, median(encode) AS encode, median(attend) AS attend, median(other) AS other,
      median(total) AS total, quartile(total, 1) AS total_q1, quartile(total, 3) AS total_q3,
      median(quantize) AS quantize, median(low_rank) AS low_rank, median(sparse) AS sparse
    FROM repeated
    GROUP BY cell_key, n_prompt_tokens, n_new_tokens, batch),
  reads AS (
    SELECT cell_key, n_prompt_tokens, n_new_tokens, batch, median(bytes / seconds) AS bytes_per_second
    FROM memory_read
    WHERE seconds > 0
    GROUP BY cell_key, n_prompt_tokens, n_new_tokens, batch),
  peaks AS (
    SELECT
      cell_key, n_prompt_tokens, n_new_tokens, batch,
      median(bytes) FILTER (WHERE part = 'weights') AS weights,
      median(bytes) FILTER (WHERE part = 'kv') AS kv,
      median(bytes) FILTER (WHERE part = 'workspace') AS workspace,
      median(bytes) FILTER (WHERE part = 'other') AS other,
      median(bytes) FILTER (WHERE part = 'peak') AS peak
    FROM memory
    GROUP BY cell_key, n_prompt_tokens, n_new_tokens, batch)
SELECT
  c.model, c.task, t.n_prompt_tokens AS prompt, t.n_new_tokens AS new, t.batch, c.plugin AS compressor,
  c.options_label AS options, t.n AS repeats,
  1000 * t.prefill AS "prefill [ms]",
  1000 * t.encode AS "encode [ms]",
  1000 * t.attend AS "attend [ms]",
  1000 * t.other AS "other [ms]",
  1000 * t.total AS "total [ms]",
  1000 * t.total_q1 AS "total Q1 [ms]",
  1000 * t.total_q3 AS "total Q3 [ms]",
  1000 * t.quantize AS "quantize [ms]",
  1000 * t.low_rank AS "low rank [ms]",
  1000 * t.sparse AS "sparse [ms]",
  t.batch * t.n_new_tokens / t.total AS "tokens/s",
  p.weights / 1e6 AS "weights [MB]",
  p.kv / 1e6 AS "KV [MB]",
  p.workspace / 1e6 AS "workspace [MB]",
  p.other / 1e6 AS "inputs [MB]",
  p.peak / 1e6 AS "peak [MB]",
  p.kv * t.n_new_tokens / t.attend / 1e9 AS "KV read [GB/s]",
  r.bytes_per_second / 1e9 AS "memory [GB/s]",
  100 * p.kv * t.n_new_tokens / t.attend / r.bytes_per_second AS "of memory [%]"
FROM of_experiment AS c
JOIN times AS t ON t.cell_key = c.key
JOIN peaks AS p USING (cell_key, n_prompt_tokens, n_new_tokens, batch)
LEFT JOIN reads AS r USING (cell_key, n_prompt_tokens, n_new_tokens, batch)
ORDER BY c.model, c.task, t.n_prompt_tokens, t.n_new_tokens, t.batch, c.plugin, c.options_label, c.key;
