WITH
  own AS (
    SELECT ec.experiment, ec.position, ec.label, c.*
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
  scores AS (
    SELECT
      x.cell_key, count(*) AS n_scores, sum(x.value) AS score, sum(x.value * x.value) AS squares,
      max(x.value NOT IN (0, 1)) AS is_graded
    FROM score AS x
    JOIN sample AS s ON s.cell_key = x.cell_key AND s.sample = x.sample AND s.status = 'ok'
    WHERE x.position = 0 AND x.cell_key IN (SELECT key FROM own)
    GROUP BY x.cell_key),
  half AS (
    SELECT
      *,
      1.959964 * sqrt(max(0, squares / n_scores - (score / n_scores) * (score / n_scores)) / max(1, n_scores - 1))
        AS width
    FROM scores)
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
  half.n_scores, half.score, half.is_graded,
  100.0 * half.score / half.n_scores AS accuracy,
  CASE
    WHEN half.is_graded THEN 100.0 * max(0, half.score / half.n_scores - half.width)
    ELSE 100.0 * wilson_low(half.score, half.n_scores)
  END AS low,
  CASE
    WHEN half.is_graded THEN 100.0 * min(1, half.score / half.n_scores + half.width)
    ELSE 100.0 * wilson_high(half.score, half.n_scores)
  END AS high,
  ifnull(sums.suspect, '') AS suspect
FROM own
LEFT JOIN sums ON sums.cell_key = own.key
LEFT JOIN prompts ON prompts.cell_key = own.key
LEFT JOIN half ON half.cell_key = own.key
