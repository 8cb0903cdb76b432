-- Failed samples, with errors
SELECT c.model, c.task, c.plugin, c.options_label, s.sample, s.error, s.cell_key
FROM sample AS s
JOIN cell AS c ON c.key = s.cell_key
WHERE s.status = 'failed'
ORDER BY c.model, c.task, c.plugin, s.sample
