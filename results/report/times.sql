-- Times of a bench: medians over its repeats.
SELECT
  c.model, c.task, c.plugin AS compressor, c.options_label AS options, t.batch,
  t.n_prompt_tokens AS "prompt [tokens]", t.n_new_tokens AS "new [tokens]", t.phase, t.part,
  count(*) AS n, median(t.seconds) AS "median [s]", min(t.seconds) AS "least [s]", max(t.seconds) AS "most [s]"
FROM timing AS t
JOIN cell AS c ON c.key = t.cell_key
WHERE :experiment = 'all' OR c.key IN (SELECT cell_key FROM experiment_cell WHERE experiment = :experiment)
GROUP BY c.key, t.n_prompt_tokens, t.n_new_tokens, t.batch, t.phase, t.part
ORDER BY c.model, c.task, t.batch, t.n_prompt_tokens, c.is_lossy, c.plugin, c.bits DESC, t.phase, t.part
