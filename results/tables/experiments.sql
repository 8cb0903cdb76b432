-- One row per experiment, model and kind, with counts of cells and samples. :experiment is a name; 'all' or NULL: every
-- one.
WITH
  shown AS (
    SELECT DISTINCT ec.experiment, c.key, c.kind, c.model, c.task, c.n_samples
    FROM experiment_cell AS ec JOIN cell AS c ON c.key = ec.cell_key
    WHERE ifnull(:experiment, 'all') = 'all' OR ec.experiment = :experiment),
  done AS (
    SELECT cell_key, sum(status = 'ok') AS n_ok, sum(status = 'failed') AS n_failed
    FROM sample
    WHERE cell_key IN (SELECT key FROM shown)
    GROUP BY cell_key),
  probed AS (
    SELECT cell_key, count(DISTINCT sample) AS n FROM probe WHERE cell_key IN (SELECT key FROM shown) GROUP BY cell_key),
  judged AS MATERIALIZED (SELECT key, suspect <> '' AS suspect FROM v_cell WHERE key IN (SELECT key FROM shown))
SELECT
  s.experiment, s.kind, s.model, count(DISTINCT s.task) AS tasks, count(*) AS cells,
  CASE
    WHEN s.kind IN ('eval', 'probe') THEN sum(max(0, s.n_samples - coalesce(p.n, d.n_ok, 0) - ifnull(d.n_failed, 0)))
  END AS missing,
  sum(ifnull(d.n_failed, 0)) AS failed,
  sum(j.suspect) AS suspect,
  sum(coalesce(p.n, d.n_ok, 0)) AS done
FROM shown AS s
LEFT JOIN done AS d ON d.cell_key = s.key
LEFT JOIN probed AS p ON p.cell_key = s.key
LEFT JOIN judged AS j ON j.key = s.key
GROUP BY s.experiment, s.kind, s.model
ORDER BY s.experiment, s.kind, s.model;
