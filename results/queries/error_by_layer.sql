-- Measurements of probes by layer: means over prompts, heads and steps
SELECT c.model, c.plugin, c.options_label, p.measure, p.tensor, p.layer, avg(p.value) AS mean, count(*) AS n
FROM probe AS p
JOIN cell AS c ON c.key = p.cell_key
GROUP BY p.cell_key, p.measure, p.tensor, p.layer
ORDER BY p.measure, p.tensor, c.model, c.plugin, c.bits DESC, p.layer
