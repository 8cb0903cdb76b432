-- Memory of a bench by batch: medians over its repeats.
SELECT
  c.model, c.task, c.plugin AS compressor, c.options_label AS options, m.batch,
  m.n_prompt_tokens AS "prompt [tokens]", m.n_new_tokens AS "new [tokens]", m.part,
  count(*) AS n, median(m.bytes) AS "median [bytes]", max(m.bytes) AS "most [bytes]"
FROM memory AS m
JOIN cell AS c ON c.key = m.cell_key
WHERE :experiment = 'all' OR c.key IN (SELECT cell_key FROM experiment_cell WHERE experiment = :experiment)
GROUP BY c.key, m.n_prompt_tokens, m.n_new_tokens, m.batch, m.part
ORDER BY c.model, c.task, m.batch, m.n_prompt_tokens, c.is_lossy, c.plugin, c.bits DESC, m.part
