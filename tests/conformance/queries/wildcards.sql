-- SELECT * and its parts.  Columns are compared by their places; an h5ad file has days as text.

SELECT * FROM gene;
--: not h5ad
SELECT * FROM cell WHERE x = 1;
SELECT gene.* FROM gene;
SELECT g.* FROM gene g WHERE g.is_marker;
SELECT *, x + 1 AS more FROM gene;
SELECT x AS first, * FROM (SELECT x, k FROM gene);
SELECT g.*, c.name AS cell FROM gene g JOIN cell c ON c.marker = g.name;
SELECT * FROM (SELECT name AS n, x AS z FROM cell) a JOIN (SELECT name AS m, x AS w FROM gene) b ON a.z = b.w;
SELECT a.*, b.* FROM (SELECT name AS n, x AS z FROM cell) a, (SELECT x AS w FROM gene) b WHERE a.z = b.w;
SELECT * EXCLUDE (x) FROM gene;
SELECT * EXCLUDE (x, k, "index") FROM gene;
SELECT * EXCEPT (x) FROM gene;
SELECT * REPLACE (x + 1 AS x) FROM gene;
SELECT * EXCLUDE (k) REPLACE (-x AS x) FROM gene;
SELECT * FROM (SELECT * FROM gene);
SELECT * FROM (SELECT * FROM gene WHERE x > 2) WHERE is_marker;
SELECT DISTINCT * FROM gene;
SELECT * FROM gene UNION ALL SELECT * FROM gene;
SELECT * FROM gene EXCEPT SELECT * FROM gene WHERE x = 2;
SELECT * FROM gene INTERSECT SELECT * FROM gene WHERE x = 2;
WITH t AS (SELECT * FROM gene) SELECT * FROM t WHERE k IS NULL;
WITH t AS (SELECT * FROM gene), u AS (SELECT * FROM t) SELECT name FROM u WHERE x = 2;
SELECT count(*) FROM (SELECT * FROM cell);
SELECT count(*), count(*) FILTER (WHERE b) FROM (SELECT * FROM cell) WHERE x > 2;
SELECT * FROM gene WHERE false;
--: datafusion DuckDB has no LEFT before SEMI
SELECT * FROM gene LEFT SEMI JOIN cell ON cell.marker = gene.name;
--: not h5ad
SELECT * FROM cell JOIN (SELECT name AS g, chrom FROM gene) t ON cell.marker = t.g WHERE x = 1;
--: not h5ad
SELECT * FROM cell JOIN (SELECT x, chrom FROM gene) t USING (x);
--: not h5ad
SELECT t.chrom, cell.* FROM cell JOIN (SELECT x, chrom FROM gene) t USING (x);
--: theirs SELECT * FROM gene
-- FROM alone means SELECT *, as it does in both engines by themselves.
FROM gene;
--: theirs SELECT name FROM gene WHERE x > 2
FROM gene SELECT name WHERE x > 2;
--: error Expected: end of statement, found: WHERE
FROM gene WHERE x > 2;
--: not collection
--: ordered
SELECT * FROM gene ORDER BY x, name;
--: not collection
--: ordered
SELECT * FROM gene ORDER BY name DESC LIMIT 2;
--: theirs SELECT count(*) FROM (SELECT * FROM cell LIMIT 2)
SELECT count(*) FROM (SELECT * FROM cell LIMIT 2);
--: theirs SELECT * FROM (SELECT * FROM gene WHERE name = 'g1') LIMIT 5
FROM (SELECT * FROM gene WHERE name = 'g1') LIMIT 5;
--: theirs SELECT count(*) AS n FROM (SELECT * FROM gene LIMIT 2) WHERE name IS NOT NULL
SELECT count(*) AS n FROM (FROM gene LIMIT 2) WHERE name IS NOT NULL;
