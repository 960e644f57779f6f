-- Joins of two axes, of an axis with itself, and of values.

SELECT c.name, g.x FROM cell c JOIN gene g ON c.marker = g.name;
SELECT c.name, g.x FROM cell c JOIN gene g ON g.name = c.marker;
SELECT cell.name, gene.chrom FROM cell JOIN gene ON cell.marker = gene.name;
SELECT c.name, g.chrom FROM cell AS c INNER JOIN gene AS g ON (c.marker = g.name);
SELECT c.name, g.x FROM cell c LEFT JOIN gene g ON c.marker = g.name;
SELECT c.name, g.x FROM cell c LEFT OUTER JOIN gene g ON c.marker = g.name;
SELECT c.name, g.name AS gene FROM cell c RIGHT JOIN gene g ON c.marker = g.name;
SELECT c.name, g.name AS gene FROM cell c FULL JOIN gene g ON c.marker = g.name;
SELECT c.name, g.name AS gene FROM gene g FULL OUTER JOIN cell c ON c.x = g.x;
SELECT c.name, g.name AS gene FROM cell c LEFT JOIN gene g ON c.x = g.x;
SELECT c.name, g.name AS gene FROM cell c RIGHT JOIN gene g ON c.x = g.x AND c.b;
SELECT c.name, g.name AS gene FROM cell c FULL JOIN gene g ON c.k = g.k;
SELECT c.name, g.name AS gene FROM cell c JOIN gene g ON c.k = g.k;
SELECT c.name, g.name AS gene FROM cell c JOIN gene g ON c.k IS NOT DISTINCT FROM g.k;
--: datafusion DuckDB has no LEFT or RIGHT before SEMI and ANTI
SELECT c.name FROM cell c LEFT SEMI JOIN gene g ON c.marker = g.name;
--: datafusion DuckDB has no LEFT or RIGHT before SEMI and ANTI
SELECT c.name FROM cell c LEFT ANTI JOIN gene g ON c.marker = g.name;
--: datafusion DuckDB has no LEFT or RIGHT before SEMI and ANTI
SELECT g.name FROM cell c RIGHT SEMI JOIN gene g ON c.x = g.x;
--: datafusion DuckDB has no LEFT or RIGHT before SEMI and ANTI
SELECT g.name FROM cell c RIGHT ANTI JOIN gene g ON c.x = g.x;
SELECT c.name, g.name AS gene FROM cell c CROSS JOIN gene g WHERE c.x = g.x + 1;
SELECT c.name, g.name AS gene FROM cell c, gene g WHERE c.marker = g.name;
SELECT c.name, g.name AS gene FROM cell c, gene g WHERE c.marker = g.name AND g.is_marker AND c.x > 2;
SELECT count(*) FROM cell, gene;
SELECT count(*) FROM cell CROSS JOIN gene;
SELECT c.name, g.name AS gene FROM cell c JOIN gene g ON c.x > g.x;
SELECT c.name, g.name AS gene FROM cell c JOIN gene g ON c.x BETWEEN g.x AND g.x + 1;
SELECT c.name, g.name AS gene FROM cell c LEFT JOIN gene g ON c.x > g.x AND c.b;
SELECT c.name, g.x FROM cell c JOIN gene g ON c.marker = g.name AND c.x > 2;
SELECT c.name, g.x FROM cell c LEFT JOIN gene g ON c.marker = g.name AND c.x > 2;
SELECT c.name, g.x FROM cell c LEFT JOIN gene g ON c.marker = g.name AND g.is_marker;
SELECT c.name, g.x FROM cell c LEFT JOIN gene g ON (c.x > 1 AND (c.marker = g.name));
SELECT c.name, g.x FROM cell c LEFT JOIN gene g ON c.marker = g.name WHERE g.name IS NULL;
SELECT c.name, g.x FROM cell c LEFT JOIN gene g ON c.marker = g.name WHERE g.x > 2;
SELECT c.name, g.x FROM cell c LEFT JOIN gene g ON c.marker = g.name WHERE g.x > 2 OR g.x IS NULL;
SELECT c.name FROM cell c LEFT JOIN gene g ON c.marker = g.name WHERE g.x IS NOT NULL;
SELECT c.name FROM cell c LEFT JOIN gene g ON c.marker = g.name WHERE g.x IS NOT NULL AND g.x > 1;
SELECT c.name FROM cell c LEFT JOIN gene g ON c.marker = g.name WHERE g.is_marker IS NOT NULL AND NOT g.is_marker;
SELECT c.name FROM cell c LEFT JOIN gene g ON c.marker = g.name WHERE g.chrom IS NOT NULL AND g.chrom > '1';
SELECT c.name, g.name AS gene FROM cell c LEFT JOIN gene g ON c.marker = g.name WHERE NOT (g.x > 2);
SELECT c.name, g.name AS gene FROM cell c LEFT JOIN gene g ON c.marker = g.name WHERE coalesce(g.x, 0) < 3;
SELECT c.name, g.name AS gene FROM cell c JOIN gene g ON c.marker = g.name OR c.x = g.x;
SELECT c.name, g.name AS gene FROM cell c JOIN gene g ON NOT (c.marker = g.name) AND c.x = g.x;
SELECT c.name, g.name AS gene FROM cell c JOIN gene g ON c.marker || '' = g.name;
SELECT c.name, g.name AS gene FROM cell c JOIN gene g ON upper(c.marker) = upper(g.name);
SELECT c.name, g.name AS gene FROM cell c JOIN gene g ON c.x + 1 = g.x;
SELECT c.name, g.name AS gene FROM cell c JOIN gene g ON c.x = g.x AND c.k = g.k;
SELECT c.name, g.name AS gene FROM cell c JOIN gene g ON true WHERE c.x = 1;
SELECT c.name, g.name AS gene FROM cell c JOIN gene g ON false;
SELECT c.name, g.name AS gene FROM cell c LEFT JOIN gene g ON false;
SELECT a.name, b.name AS other FROM cell a JOIN cell b ON a.x = b.x AND a.name < b.name;
SELECT a.name, b.name AS other FROM cell a LEFT JOIN cell b ON a.x = b.x AND a.y + 1 = b.y;
SELECT a.name, b.k FROM cell a JOIN cell b ON a.k = b.k WHERE a.b AND NOT b.b;
SELECT a.name, b.name AS other FROM cell a JOIN cell b ON a.name = b.name WHERE a.x > 2;
SELECT a.name, b.name AS other, g.name AS gene FROM cell a JOIN cell b ON a.y = b.x JOIN gene g ON b.marker = g.name;
SELECT a.name, g.x, h.x AS hx FROM cell a LEFT JOIN gene g ON a.marker = g.name LEFT JOIN gene h ON g.k = h.x;
SELECT a.name, g.x FROM cell a JOIN (SELECT * FROM gene WHERE is_marker) g ON a.marker = g.name;
SELECT a.name, g.n FROM cell a JOIN (SELECT x, count(*) AS n FROM gene GROUP BY x) g ON a.x = g.x;
SELECT a.name, t.label FROM cell a JOIN (VALUES (1, 'one'), (2, 'two')) AS t(n, label) ON a.x = t.n;
SELECT t.n, a.name FROM (VALUES (1), (4), (NULL)) AS t(n) LEFT JOIN cell a ON a.k = t.n;
SELECT name, x FROM cell JOIN (SELECT 'c03' AS other UNION ALL SELECT 'c05') t ON name = other;
SELECT x, count(*) FROM cell JOIN gene USING (x) GROUP BY x;
SELECT x, cell.name, gene.name AS gene FROM cell JOIN gene USING (x);
SELECT x, cell.name, gene.name AS gene FROM cell LEFT JOIN gene USING (x);
SELECT x, k, cell.name FROM cell JOIN gene USING (x, k);
--: datafusion the engine has the left column of USING, which is NULL for rows of the right table alone
SELECT x, c.name, g.name AS gene FROM cell c FULL JOIN gene g USING (x);
SELECT count(*) FROM (SELECT x, k FROM cell) a NATURAL JOIN (SELECT x, chrom FROM gene) b;
SELECT * FROM (SELECT x, k FROM cell) a NATURAL JOIN (SELECT x, chrom FROM gene) b;
SELECT * FROM (SELECT x, name FROM cell) a NATURAL LEFT JOIN (SELECT x, chrom FROM gene) b;
SELECT g.chrom, count(*), sum(c.x) FROM cell c JOIN gene g ON c.marker = g.name GROUP BY g.chrom;
SELECT g.name, count(*) AS n FROM cell c JOIN gene g ON c.marker = g.name GROUP BY g.name;
SELECT g.name, count(c.name) AS n, avg(c.f) FROM gene g LEFT JOIN cell c ON c.marker = g.name GROUP BY g.name;
SELECT is_marker, count(*) AS n FROM cell JOIN gene ON cell.marker = gene.name WHERE y > 1 GROUP BY is_marker;
SELECT DISTINCT g.chrom FROM cell c JOIN gene g ON c.marker = g.name;
SELECT c.name, g.name AS gene FROM cell c JOIN gene g ON c.x = g.x WHERE c.x IN (1, 2) AND g.k NOT IN (5, NULL);
SELECT c.name FROM cell c JOIN gene g ON c.x = g.x WHERE c.x IN (1, 2, 3, 5) AND g.x NOT IN (2, 8);
--: duckdb the engine merges two lists for columns that are equal and forgets NULL
SELECT c.name FROM cell c, gene g WHERE c.x = g.x AND c.x IN (1, 2, 5) AND g.x NOT IN (2, 8, 9, NULL);
SELECT c.name FROM cell c LEFT JOIN gene g ON c.x = g.x AND g.k NOT IN (2, NULL) WHERE c.x IN (1, 2);
--: error OuterReferenceColumn
SELECT c.name, t.v FROM cell c, LATERAL (SELECT max(g.x) AS v FROM gene g WHERE g.x < c.x) t;
--: error OuterReferenceColumn
SELECT c.name, t.v FROM cell c CROSS JOIN LATERAL (SELECT c.x * 2 AS v) t;
SELECT c.name, t.v FROM cell c JOIN LATERAL (SELECT count(*) AS v FROM gene g WHERE g.x = c.x) t ON t.v > 0;
SELECT c.name FROM cell c JOIN gene g ON c.x = g.x JOIN gene h ON h.x = g.x WHERE h.name <> g.name;
--: not own
--: theirs SELECT CAST(c.u AS BIGINT) - CAST(d.v AS BIGINT) AS rest FROM cell c JOIN cell d ON c.name = d.name
SELECT c.u - d.v AS rest FROM cell c JOIN cell d ON c.name = d.name;
SELECT a.name FROM cell a JOIN cell b ON a.u8 = b.i8;
SELECT a.name FROM cell a JOIN cell b ON a.f = b.x AND a.f32 < b.f;
SELECT a.name FROM cell a JOIN gene g ON a.k + g.k = 7;
SELECT a.louvain, b.stage FROM cell a JOIN cell b ON a.louvain = b.louvain AND a.name = b.name;
SELECT a.maybe, b.b FROM cell a JOIN cell b ON a.maybe = b.b AND a.x = b.y;
--: ordered
SELECT c.name, g.name AS gene FROM cell c JOIN gene g ON c.marker = g.name ORDER BY g.name DESC, c.name LIMIT 7;
--: ordered
SELECT c.name, g.chrom FROM cell c LEFT JOIN gene g ON c.marker = g.name ORDER BY g.chrom NULLS FIRST, c.name, g.name;

-- What WHERE says of a table is not true before an outer join, also of one in brackets.
SELECT c.name, g.name AS gene FROM (cell c LEFT JOIN gene g ON c.marker = g.name) CROSS JOIN (SELECT 1 AS one) o WHERE g.x IS NULL OR g.name LIKE 'zz%';
SELECT c.name, g.name AS gene FROM (SELECT 1 AS one) o CROSS JOIN (cell c LEFT JOIN gene g ON c.marker = g.name AND g.x > 1) WHERE g.name IS NULL OR g.name LIKE 'zz%';
SELECT c.name, g.name AS gene FROM (cell c JOIN gene g ON c.marker = g.name) CROSS JOIN (SELECT 1 AS one) o WHERE g.name LIKE 'G%' OR g.name LIKE 'C%';
