-- The largest memory peak of each cell, by part, in bytes
SELECT c.model, c.task, c.plugin, c.options_label, s.sample, s.peak_weights_bytes, s.peak_kv_bytes,
  s.peak_workspace_bytes, s.peak_other_bytes,
  max(s.peak_weights_bytes + s.peak_kv_bytes + s.peak_workspace_bytes + ifnull(s.peak_other_bytes, 0)) AS peak_bytes
FROM cell AS c
JOIN sample AS s ON s.cell_key = c.key AND s.status = 'ok'
GROUP BY c.key
ORDER BY c.model, c.task, peak_bytes
