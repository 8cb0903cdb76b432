-- One row per probed cell: means over its n samples that did not fail. Errors of K and V over all heads, mean over
-- layers; likewise attention scores and output; KL and top-1 agreement over the decoding steps of the stored answer;
-- first divergence: the first token at which the compressor's own answer differs from the stored one, over the samples
-- where it does. :experiment is a name; 'all' or NULL: every cell.
WITH
  probed AS (
    SELECT key, model, task, plugin, options_label
    FROM cell
    WHERE kind = 'probe'
      AND (ifnull(:experiment, 'all') = 'all' AND key NOT IN (SELECT cell_key FROM v_older)
           OR key IN (SELECT cell_key FROM experiment_cell WHERE experiment = :experiment))),
  whole AS (SELECT cell_key, sample, measure, tensor, value FROM probe WHERE head = -1)
SELECT
  c.model, c.task, c.plugin AS compressor, c.options_label AS options,
  count(DISTINCT w.sample) AS n,
  (SELECT count(*) FROM sample AS s WHERE s.cell_key = c.key AND s.status = 'failed') AS failed,
  avg(w.value) FILTER (WHERE w.measure = 'rel_fro' AND w.tensor = 'k') AS "K error",
  avg(w.value) FILTER (WHERE w.measure = 'rel_fro' AND w.tensor = 'v') AS "V error",
  avg(w.value) FILTER (WHERE w.measure = 'score_rel_sq') AS "scores",
  avg(w.value) FILTER (WHERE w.measure = 'output_rel_fro') AS "output",
  avg(w.value) FILTER (WHERE w.measure = 'kl') AS "KL",
  round(100.0 * avg(w.value) FILTER (WHERE w.measure = 'top1_same'), 2) AS "top-1 [%]",
  avg(w.value) FILTER (WHERE w.measure = 'first_divergence') AS "first divergence",
  count(w.value) FILTER (WHERE w.measure = 'first_divergence') AS "diverged"
FROM probed AS c
LEFT JOIN whole AS w ON w.cell_key = c.key
GROUP BY c.key
ORDER BY c.model, c.task, c.plugin, c.options_label, c.key;
