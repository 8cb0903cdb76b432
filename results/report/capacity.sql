-- What fits: one row per compressor, limit and kind, computed and tried.
SELECT
  c.model, c.task, c.plugin AS compressor, c.options_label AS options, k.kind, k.how,
  k.limit_bytes AS "limit [bytes]", k.n_tokens AS "length [tokens]", k.value
FROM capacity AS k
JOIN cell AS c ON c.key = k.cell_key
WHERE :experiment = 'all' OR c.key IN (SELECT cell_key FROM experiment_cell WHERE experiment = :experiment)
ORDER BY c.model, c.task, k.kind, k.limit_bytes, c.is_lossy, c.plugin, c.bits DESC, k.how
