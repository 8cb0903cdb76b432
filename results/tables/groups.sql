-- One row per cell and score: sums over its ok samples, for means over groups of tasks. :experiment as in summary.
SELECT
  c.model, c.plugin, c.options, c.task, s.extractor, s.position, s.n, s.sum_value,
  cell.model_json || char(10) || cell.plugin_sha256 || char(10) || cell.options_json || char(10) || c.settings_json
    AS variant,
  c.chat_json,
  c.key, c.suspect
FROM v_cell AS c
JOIN cell ON cell.key = c.key
JOIN v_score AS s ON s.cell_key = c.key
WHERE ifnull(:experiment, 'all') = 'all' AND c.key NOT IN (SELECT cell_key FROM v_older)
   OR c.key IN (SELECT cell_key FROM experiment_cell WHERE experiment = :experiment)
ORDER BY c.model, c.is_lossy, c.plugin, c.bits DESC, c.options, variant, c.task, c.key, s.position;
