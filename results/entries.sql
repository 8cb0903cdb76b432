WITH
  own AS (
    SELECT ec.experiment, ec.position, ec.label, ec.min_baseline, c.*
    FROM chosen JOIN experiment_cell AS ec USING (experiment) JOIN cell AS c ON c.key = ec.cell_key),
  sums AS MATERIALIZED (
    SELECT key AS cell_key, n_ok, n_failed, kv_bytes, kv_bytes_fp16, paper_bytes, n_new_tokens, suspect
    FROM v_cell
    WHERE key IN (SELECT key FROM own)),
  prompts AS (
    SELECT cell_key, sum(n_prompt_tokens) AS n_prompt_tokens
    FROM sample
    WHERE status = 'ok' AND cell_key IN (SELECT key FROM own)
    GROUP BY cell_key),
  intervals AS MATERIALIZED (
    SELECT * FROM v_interval
    WHERE measure IN ('accuracy', 'score', 'top-1', 'kl') AND cell_key IN (SELECT key FROM own)),
  headline AS (SELECT * FROM intervals WHERE position = 0),
  kl AS (SELECT * FROM intervals WHERE measure = 'kl'),
  floor AS (
    SELECT own.model, own.task, max(headline.mean) AS baseline, max(own.min_baseline) AS min_baseline
    FROM own JOIN headline ON headline.cell_key = own.key
    WHERE own.is_lossy = 0 AND headline.measure <> 'top-1'
    GROUP BY own.model, own.task
    HAVING 100.0 * max(headline.mean) < max(own.min_baseline))
SELECT
  own.experiment, own.position,
  CASE
    WHEN own.label <> '' THEN own.label
    WHEN own.options_label IN ('', 'defaults') THEN own.plugin
    ELSE own.plugin || ' ' || own.options_label
  END AS label,
  own.key, own.kind,
  replace(own.model, rtrim(own.model, replace(own.model, '/', '')), '') AS model,
  own.task, json_patch(own.task_json, own.scoring_json) AS task_json, own.model_json, own.plugin, own.options_json,
  own.generation_json, own.bits, own.is_lossy, own.is_simulated, own.n_samples,
  ifnull(sums.n_ok, 0) AS n_ok,
  ifnull(sums.n_failed, (SELECT count(*) FROM sample WHERE cell_key = own.key AND status = 'failed')) AS n_failed,
  sums.kv_bytes, sums.kv_bytes_fp16, sums.paper_bytes, prompts.n_prompt_tokens, sums.n_new_tokens,
  headline.measure, headline.n AS n_scores,
  100.0 * headline.mean AS accuracy, 100.0 * headline.low AS low, 100.0 * headline.high AS high,
  kl.mean AS kl, kl.low AS kl_low, kl.high AS kl_high,
  ifnull(sums.suspect, '') AS suspect,
  CASE
    WHEN floor.task IS NULL THEN ''
    ELSE printf('full precision scores %.1f %%, below min_baseline %g', 100.0 * floor.baseline, floor.min_baseline)
  END AS at_floor
FROM own
LEFT JOIN sums ON sums.cell_key = own.key
LEFT JOIN prompts ON prompts.cell_key = own.key
LEFT JOIN headline ON headline.cell_key = own.key
LEFT JOIN kl ON kl.cell_key = own.key
LEFT JOIN floor ON floor.model = own.model AND floor.task = own.task
