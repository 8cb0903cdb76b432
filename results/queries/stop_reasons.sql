-- Stop reasons and lengths of generations
SELECT c.model, c.task, c.plugin, c.options_label, s.stop_reason, count(*) AS n,
  round(100.0 * count(*) / sum(count(*)) OVER (PARTITION BY c.key), 1) AS percent, avg(s.n_new_tokens) AS mean_new_tokens,
  max(s.n_new_tokens) AS max_new_tokens
FROM sample AS s
JOIN cell AS c ON c.key = s.cell_key
WHERE s.status = 'ok'
GROUP BY c.key, s.stop_reason
ORDER BY c.model, c.task, c.plugin, c.bits DESC, n DESC
