-- Entries of matrices through wildcards, subqueries, joins and views.  The oracles' table shown is cell without entries.
--: file not own, h5ad

--: theirs SELECT s.* FROM shown s JOIN cell c ON s.name = c.name WHERE c.X['g1'] > 1
SELECT * FROM cell WHERE X['g1'] > 1;
--: theirs SELECT s.* FROM shown s JOIN cell c ON s.name = c.name WHERE c.X['g1'] > 1 AND c.counts['g2'] < 150
SELECT c.* FROM cell AS c WHERE X['g1'] > 1 AND c.counts['g2'] < 150;
--: theirs SELECT s.*, c.X['g1'] AS g FROM shown s JOIN cell c ON s.name = c.name
SELECT *, X['g1'] AS g FROM cell;
--: theirs SELECT s.* EXCLUDE (x, k) FROM shown s JOIN cell c ON s.name = c.name WHERE c.X['g1'] > 1
SELECT * EXCLUDE (x, k) FROM cell WHERE X['g1'] > 1;
--: theirs SELECT s.* EXCLUDE (x) FROM shown s JOIN cell c ON s.name = c.name WHERE c.X['g1'] > 1
SELECT * EXCLUDE x FROM cell WHERE X['g1'] > 1;
--: theirs SELECT s.* REPLACE (s.x + 1 AS x) FROM shown s JOIN cell c ON s.name = c.name WHERE c.X['g1'] > 1
SELECT * REPLACE (x + 1 AS x) FROM cell WHERE X['g1'] > 1;
--: theirs SELECT s.* FROM shown s JOIN cell c ON s.name = c.name WHERE c.X['g1'] > 0 AND s.x > 2
SELECT * FROM (SELECT * FROM cell WHERE X['g1'] > 0) WHERE x > 2;
--: theirs SELECT s.* FROM shown s JOIN cell c ON s.name = c.name WHERE c.X['g1'] > 0
WITH t AS (SELECT * FROM cell WHERE X['g1'] > 0) SELECT * FROM t;
--: theirs SELECT DISTINCT s.* FROM shown s JOIN cell c ON s.name = c.name WHERE c.X['g1'] > 0
SELECT DISTINCT * FROM cell WHERE X['g1'] > 0;
--: theirs SELECT s.* FROM shown s JOIN cell c ON s.name = c.name WHERE c.X['g1'] > 2 UNION ALL SELECT s.* FROM shown s JOIN cell c ON s.name = c.name WHERE c.X['g1'] BETWEEN 1 AND 2
SELECT * FROM cell WHERE X['g1'] > 2 UNION ALL SELECT * FROM cell WHERE X['g1'] BETWEEN 1 AND 2;
--: theirs SELECT count(*) FROM cell WHERE X['g1'] > 1
SELECT count(*) FROM (SELECT * FROM cell WHERE X['g1'] > 1);
--: theirs SELECT s.*, g.chrom AS c2 FROM shown s JOIN cell c ON s.name = c.name JOIN gene g ON c.marker = g.name WHERE c.X['g1'] > 1
SELECT c.*, g.chrom AS c2 FROM cell c JOIN gene g ON c.marker = g.name WHERE c.X['g1'] > 1;
--: theirs SELECT a.name, b.name AS other FROM cell a, cell b WHERE a.X['g1'] > b.X['g2'] + 2
SELECT a.name, b.name AS other FROM cell a, cell b WHERE a.X['g1'] > b.X['g2'] + 2;
--: theirs SELECT a.name, a.X['g1'] AS v, b.X['g1'] AS w FROM cell a JOIN cell b ON a.x = b.y
SELECT a.name, a.X['g1'] AS v, b.X['g1'] AS w FROM cell a JOIN cell b ON a.x = b.y;
SELECT name FROM cell c WHERE c.X['g1'] > (SELECT avg(d.X['g1']) FROM cell d WHERE d.y = c.y);
SELECT name FROM cell c WHERE EXISTS (SELECT 1 FROM cell d WHERE d.X['g2'] > c.X['g1'] AND d.x = c.x);
SELECT name FROM cell WHERE X['g1'] IN (SELECT X['g2'] FROM cell WHERE b);
SELECT name FROM cell WHERE X['g1'] NOT IN (SELECT X['g2'] FROM cell WHERE X['g2'] > 0);
SELECT s.v, g.x FROM (SELECT X['g1'] AS v, marker FROM cell) s JOIN gene g ON s.marker = g.name;
SELECT v + w AS total FROM (SELECT X['g1'] AS v, counts['g1'] AS w FROM cell WHERE X['g3'] = 0);
WITH t AS (SELECT name, X['g1'] AS v FROM cell), u AS (SELECT name, v * 2 AS w FROM t WHERE v > 0) SELECT t.name, u.w FROM t JOIN u ON t.name = u.name;
WITH t (n, v) AS (SELECT name, X['g1'] FROM cell) SELECT n FROM t WHERE v > 1;
WITH t AS (SELECT name, X['g1'] FROM cell) SELECT name FROM t WHERE X['g1'] > 1;
SELECT t.X['g1'] AS v FROM (SELECT X['g1'] FROM cell) t WHERE t.X['g1'] > 1;
SELECT CASE WHEN c.X['g1'] > 0 THEN c.counts['g1'] ELSE c.counts['g2'] END AS v FROM cell c;
SELECT coalesce(X['g1'], 0) AS v, nullif(X['g1'], 0) AS w FROM cell;
SELECT name FROM cell WHERE nullif(X['g1'], 0) IS NULL AND counts['g1'] > 100;
SELECT y, sum(X['g1']) FILTER (WHERE X['g2'] > 0) AS s FROM cell GROUP BY y;
SELECT y, X['g1'] > 1 AS high, count(*) FROM cell GROUP BY y, X['g1'] > 1;
SELECT X['g1'], counts['g1'] > 100 AS c, count(*) FROM cell GROUP BY X['g1'], counts['g1'] > 100 HAVING X['g1'] < 3;
SELECT y FROM cell GROUP BY y HAVING sum(X['g1']) > sum(X['g2']);
SELECT name, X['g1'] - avg(X['g1']) OVER (PARTITION BY y) AS d FROM cell;
SELECT name, lag(X['g1']) OVER (ORDER BY name) AS before FROM cell;
SELECT name, row_number() OVER (ORDER BY X['g1'] DESC, name) AS r FROM cell QUALIFY row_number() OVER (ORDER BY X['g1'] DESC, name) < 4;
SELECT corr(X['g1'], X['g2']), stddev(counts['g1']) FROM cell;
SELECT array_agg(X['g1'] ORDER BY name) AS l FROM cell WHERE x = 1;
SELECT [X['g1'], X['g2']][1] AS v FROM cell;
--: ordered
SELECT name FROM cell ORDER BY X['g1'] + X['g2'] DESC, name LIMIT 5 OFFSET 2;
--: ordered
SELECT DISTINCT X['g1'] AS v FROM cell ORDER BY v;
--: ordered
SELECT y, avg(X['g1']) AS m FROM cell GROUP BY y ORDER BY avg(X['g1']) DESC, y;
--: ordered
SELECT name, x FROM (SELECT name, x, X['g1'] AS v FROM cell ORDER BY X['g1'] DESC, name LIMIT 6 OFFSET 1) ORDER BY x, name;
--: with {"g": "g1", "h": "it's", "n": [1, 2]}
--: theirs SELECT X['g1'] AS v, X['it''s'] AS w FROM cell WHERE X['g1'] IN (1, 2)
SELECT X[$g] AS v, X[$h] AS w FROM cell WHERE X[$g] IN $n;
--: with {"g": "g2"}
--: theirs SELECT y, sum(counts['g2']) AS s FROM cell GROUP BY y HAVING sum(counts['g2']) > 100
SELECT y, sum(counts[$g]) AS s FROM cell GROUP BY y HAVING sum(counts[$g]) > 100;
SELECT X['g1'] /* X['nope'] */ AS v -- X['neither']
FROM cell WHERE name <> 'X[''g1'']';

-- In views.
CREATE VIEW high AS SELECT name, x, X['g1'] AS v FROM cell WHERE X['g1'] > 0;
CREATE VIEW wild AS SELECT * FROM cell WHERE X['g2'] > 0;
SELECT name, v FROM high WHERE v > 1;
SELECT avg(v), count(*) FROM high;
SELECT h.name, g.x FROM high h JOIN gene g ON h.x = g.x;
SELECT name FROM wild WHERE x > 2;
--: theirs SELECT s.* FROM shown s JOIN cell c ON s.name = c.name WHERE c.X['g2'] > 0 AND s.b
SELECT * FROM wild WHERE b;
