-- Subqueries: of one value, IN, EXISTS, ANY and ALL, correlated, in FROM.

SELECT name FROM cell WHERE x = (SELECT max(x) FROM cell);
SELECT name FROM cell WHERE x > (SELECT avg(x) FROM gene);
SELECT name, (SELECT max(x) FROM gene) AS m FROM cell;
SELECT name, x - (SELECT min(x) FROM gene) AS m FROM cell;
SELECT (SELECT count(*) FROM cell) + (SELECT count(*) FROM gene) AS n;
SELECT (SELECT max(x) FROM cell), (SELECT min(name) FROM gene);
SELECT name, (SELECT count(*) FROM gene WHERE gene.x = cell.x) AS n FROM cell;
SELECT name, (SELECT count(*) FROM gene WHERE gene.x = cell.x) > 0 AS found FROM cell;
SELECT name, (SELECT max(g.k) FROM gene g WHERE g.name = c.marker) AS k FROM cell c;
--: error where it is an aggregate
SELECT name, (SELECT g.chrom FROM gene g WHERE g.name = c.marker) AS chrom FROM cell c;
SELECT name FROM cell c WHERE x > (SELECT avg(d.x) FROM cell d WHERE d.y = c.y);
SELECT name FROM cell c WHERE x = (SELECT max(d.x) FROM cell d WHERE d.donor = c.donor);
SELECT name FROM cell c WHERE k = (SELECT min(g.k) FROM gene g WHERE g.x = c.x);
SELECT name FROM cell WHERE x IN (SELECT x FROM gene);
SELECT name FROM cell WHERE x NOT IN (SELECT x FROM gene);
SELECT name FROM cell WHERE k IN (SELECT k FROM gene);
SELECT name FROM cell WHERE k IN (SELECT k FROM gene WHERE k IS NOT NULL);
SELECT name FROM cell WHERE k NOT IN (SELECT k FROM gene);
SELECT name FROM cell WHERE k NOT IN (SELECT k FROM gene WHERE k IS NOT NULL);
SELECT name FROM cell WHERE x NOT IN (SELECT k FROM gene);
SELECT name FROM cell WHERE x NOT IN (SELECT k FROM gene WHERE k IS NOT NULL);
SELECT name FROM cell WHERE k NOT IN (SELECT x FROM gene);
SELECT name FROM cell WHERE x IN (SELECT x FROM gene WHERE false);
SELECT name FROM cell WHERE x NOT IN (SELECT x FROM gene WHERE false);
SELECT name FROM cell WHERE k NOT IN (SELECT x FROM gene WHERE false);
SELECT name FROM cell WHERE marker IN (SELECT name FROM gene WHERE is_marker);
SELECT name FROM cell WHERE marker NOT IN (SELECT name FROM gene WHERE is_marker);
SELECT name FROM cell WHERE donor NOT IN (SELECT chrom FROM gene);
SELECT name FROM cell WHERE x + 1 IN (SELECT x FROM gene);
SELECT name FROM cell WHERE x IN (SELECT x + 1 FROM gene);
SELECT name FROM cell WHERE x IN (SELECT max(x) FROM cell GROUP BY y);
SELECT name FROM cell WHERE x IN (SELECT x FROM cell GROUP BY x HAVING count(*) > 3);
SELECT name FROM cell WHERE x IN (SELECT x FROM gene UNION SELECT 3);
SELECT name FROM cell WHERE x IN (SELECT x FROM gene ORDER BY x LIMIT 2);
SELECT name FROM cell WHERE x IN (SELECT x FROM gene) AND b;
SELECT name FROM cell WHERE x IN (SELECT x FROM gene) OR b;
SELECT name FROM cell WHERE x IN (SELECT x FROM gene) OR k IN (SELECT k FROM gene);
SELECT name FROM cell WHERE NOT (x IN (SELECT x FROM gene));
SELECT name FROM cell WHERE x IN (SELECT x FROM gene WHERE gene.name = cell.marker);
SELECT name FROM cell WHERE x IN (1, (SELECT max(x) FROM gene), 5);
SELECT name FROM cell WHERE EXISTS (SELECT 1 FROM gene WHERE gene.x = cell.x);
SELECT name FROM cell WHERE NOT EXISTS (SELECT 1 FROM gene WHERE gene.x = cell.x);
SELECT name FROM cell WHERE EXISTS (SELECT * FROM gene WHERE gene.name = cell.marker AND gene.x > cell.y);
SELECT name FROM cell WHERE EXISTS (SELECT 1 FROM gene WHERE x > 100);
SELECT name FROM cell WHERE NOT EXISTS (SELECT 1 FROM gene WHERE x > 100);
SELECT name FROM cell WHERE EXISTS (SELECT 1 FROM gene);
SELECT name FROM cell WHERE EXISTS (SELECT 1 FROM gene WHERE gene.x = cell.x) OR x = 8;
SELECT name FROM cell WHERE EXISTS (SELECT 1 FROM gene WHERE gene.k = cell.k) AND NOT EXISTS (SELECT 1 FROM gene WHERE gene.x = cell.x);
SELECT name FROM cell c WHERE EXISTS (SELECT 1 FROM cell d WHERE d.donor = c.donor AND d.name <> c.name AND d.x = c.x);
SELECT name FROM cell WHERE x > ANY (SELECT x FROM gene);
SELECT name FROM cell WHERE x > ALL (SELECT x FROM gene WHERE x < 7);
--: duckdb the engine takes x of the subquery for that of the query around it
SELECT name FROM cell WHERE x >= ALL (SELECT x FROM cell);
SELECT name FROM cell WHERE x <> ALL (SELECT x FROM gene);
SELECT name FROM cell WHERE x = ANY (SELECT x FROM gene WHERE is_marker);
--: duckdb the engine takes x of the subquery for that of the query around it
SELECT name FROM cell WHERE x = SOME (SELECT cell.x FROM cell WHERE x > 3);
--: duckdb the engine takes x of the subquery for that of the query around it
SELECT name FROM cell WHERE x != ALL (SELECT x FROM cell WHERE x > 3);
--: duckdb the engine takes x of the subquery for that of the query around it
SELECT name FROM cell WHERE x > ALL (SELECT DISTINCT x FROM cell WHERE x < 3);
--: duckdb the engine takes x of the subquery for that of the query around it
SELECT name FROM cell WHERE x > ALL (SELECT x FROM (SELECT x FROM cell WHERE x < 3));
--: duckdb the engine takes x of the subquery for that of the query around it
SELECT name FROM cell WHERE x + 1 > ALL (SELECT x FROM cell WHERE x < 3);
SELECT name FROM cell WHERE k > ALL (SELECT k FROM gene);
SELECT name FROM cell WHERE k > ANY (SELECT k FROM gene);
SELECT name FROM cell WHERE NOT k > ANY (SELECT k FROM gene);
SELECT name FROM cell WHERE x > ALL (SELECT max(x) FROM cell WHERE x < 3);
SELECT name FROM cell WHERE x > ALL (SELECT d.x FROM cell d WHERE d.y = cell.y AND d.name <> cell.name);
SELECT name FROM cell WHERE x >= ALL (SELECT gene.x FROM gene WHERE gene.x < cell.x);
--: duckdb the engine takes x of the subquery for that of the query around it
SELECT name FROM cell WHERE (x > ALL (SELECT x FROM cell WHERE x < 3)) = b;
--: duckdb the engine takes x of the subquery for that of the query around it
SELECT name FROM cell WHERE NOT x > ALL (SELECT x FROM cell WHERE x < 3) OR b;
--: duckdb the engine takes x of the subquery for that of the query around it
SELECT name FROM cell WHERE x IN (SELECT x FROM cell WHERE x > ALL (SELECT x FROM cell WHERE x < 3));
SELECT name FROM cell WHERE x = ANY ([1, 2]);
--: duckdb the engine takes x of the subquery for that of the query around it
SELECT x FROM cell GROUP BY x HAVING x > ALL (SELECT x FROM cell WHERE x < 7);
SELECT x FROM cell GROUP BY x HAVING count(*) > (SELECT count(*) FROM gene WHERE is_marker);
SELECT donor, avg(x) FROM cell GROUP BY donor HAVING avg(x) > (SELECT avg(x) FROM cell);
SELECT n FROM (SELECT x + 1 AS n FROM cell) WHERE n > 3;
SELECT n, count(*) FROM (SELECT x % 3 AS n, b FROM cell) WHERE b GROUP BY n;
SELECT a.name FROM (SELECT * FROM cell WHERE x = 2) a WHERE a.b;
SELECT name FROM (SELECT name, x FROM (SELECT name, x, k FROM cell WHERE k > 1) WHERE x < 8) WHERE x > 1;
SELECT t.n FROM (SELECT nullif(x, 2) AS n FROM cell) t WHERE t.n IS NULL;
SELECT n FROM (SELECT nullif(x, 5) AS n FROM cell) WHERE n NOT IN (1, 2);
SELECT n FROM (SELECT nullif(x, 5) AS n FROM cell) WHERE n IN (1, NULL) IS NULL;
--: duckdb the engine merges two lists for one column and forgets NULL
SELECT n FROM (SELECT nullif(x, 5) AS n FROM cell) WHERE NOT ((n = 1 OR n = 2) AND (n = 3 OR n = 4));
SELECT m FROM (SELECT max(x) AS m, donor FROM cell GROUP BY donor) WHERE donor = 'N1';
SELECT name FROM cell WHERE (SELECT max(x) FROM gene) > 8;
--: not collection
SELECT name FROM cell WHERE (SELECT k FROM gene WHERE name = 'g1') = x;
--: not collection
SELECT name FROM cell WHERE (SELECT k FROM gene WHERE name = 'g2') IS NULL AND b;
SELECT count(*) FROM cell WHERE (SELECT k FROM gene WHERE name = 'zz') IS NULL;
SELECT count(*) FROM cell WHERE (SELECT x FROM gene WHERE name = 'zz') IS NULL;
SELECT count(*) FROM cell WHERE (SELECT x FROM gene WHERE name = 'zz') IS NOT NULL;
SELECT name FROM cell WHERE coalesce((SELECT x FROM gene WHERE name = 'zz'), 2) = x;
SELECT name, (SELECT x FROM gene WHERE name = 'zz') AS nothing FROM cell;
SELECT name, coalesce((SELECT x FROM gene WHERE name = 'zz'), 0) AS nothing FROM cell;
SELECT name FROM cell WHERE x > (SELECT x FROM gene WHERE name = 'zz');
SELECT name FROM cell WHERE NOT (x > (SELECT x FROM gene WHERE name = 'zz'));
SELECT name FROM cell WHERE (x > (SELECT x FROM gene WHERE name = 'zz')) IS NULL;
SELECT name FROM cell WHERE nullif(x, 1) NOT IN (SELECT x FROM gene);
SELECT name FROM cell WHERE nullif(x, 1) NOT IN (SELECT x FROM gene WHERE x > 2) AND b;
SELECT name FROM cell WHERE CASE WHEN b THEN x END NOT IN (SELECT x FROM gene);
SELECT name FROM cell WHERE x IN (SELECT nullif(x, 2) FROM gene);
SELECT name FROM cell WHERE x NOT IN (SELECT nullif(x, 2) FROM gene);

-- Chains that a subquery gives names meet above it.
--: duckdb the engine merges two lists for one column and forgets NULL
SELECT count(*) FROM (SELECT k = 1 OR k = 2 AS a, k = 3 OR k = 4 AS b FROM cell) t WHERE NOT (a AND b);
SELECT count(*) FROM (SELECT k IN (1, 2) a, -k = -3 OR k = 3 OR k = 4 b FROM cell) t WHERE NOT a OR NOT b;

-- Columns of a quantified subquery that are called as one of the query around it.
--: duckdb the engine takes the column for that of the query around
SELECT name FROM cell WHERE x > ANY (SELECT x FROM cell);
--: duckdb the engine takes the column for that of the query around
SELECT name FROM cell WHERE x = ANY (SELECT x FROM cell WHERE x > 3);
--: duckdb the engine takes the column for that of the query around
SELECT name FROM cell WHERE x <> ALL (SELECT x FROM cell WHERE x > 3);
--: duckdb the engine takes the column for that of the query around
SELECT name FROM cell WHERE x > all(select x from cell where x < 3 order by x limit 1);
--: duckdb the engine takes the column for that of the query around
SELECT name FROM cell WHERE x > ALL (SELECT * FROM (SELECT x FROM cell WHERE x < 3));
--: duckdb the engine takes the column for that of the query around
SELECT name FROM cell WHERE x > ALL (SELECT cell.* FROM (SELECT x FROM cell WHERE x < 3) cell);
--: duckdb the engine takes the column for that of the query around
SELECT name FROM cell WHERE x > ALL ((SELECT x FROM cell WHERE x < 3));
--: duckdb the engine takes the column for that of the query around
SELECT name FROM cell WHERE x > ALL (SELECT "x" FROM cell WHERE x < 3);
--: duckdb the engine takes the column for that of the query around
SELECT name FROM cell WHERE abs(x) > ALL (SELECT x FROM cell WHERE x < 3);
--: duckdb the engine takes the column for that of the query around
SELECT name FROM cell WHERE CASE WHEN b THEN x ELSE 0 END > ALL (SELECT x FROM cell WHERE x < 3);
--: duckdb the engine takes the column for that of the query around
SELECT name FROM cell WHERE x > ALL (SELECT cell.x FROM cell, gene WHERE cell.x < 3);
SELECT name FROM cell WHERE x > ALL (WITH w AS (SELECT x FROM cell WHERE x < 3) SELECT x FROM w);
--: duckdb the engine takes the column for that of the query around
SELECT name FROM cell WHERE x > ALL (WITH cell AS (SELECT x FROM gene WHERE x < 3) SELECT x FROM cell);
--: duckdb the engine takes the column for that of the query around
SELECT name FROM cell WHERE x > ALL (SELECT x FROM cell WHERE x < 3 GROUP BY x HAVING count(*) > 1);
SELECT name FROM cell WHERE x > ALL (SELECT x FROM cell WHERE x < 3 UNION SELECT x FROM gene WHERE x < 3);
SELECT name FROM cell WHERE x > ALL (SELECT x AS z FROM cell WHERE x < 3);
SELECT name FROM cell WHERE x > ALL (SELECT x z FROM cell WHERE x < 3);
SELECT name FROM cell WHERE x > ALL (SELECT x + 0 FROM cell WHERE x < 3);
SELECT name FROM cell WHERE x > ALL (SELECT x FROM gene WHERE x < 3);
--: duckdb the engine takes the column for that of the query around
SELECT name FROM cell WHERE f > ALL (SELECT f FROM cell WHERE f < 3);
--: duckdb the engine takes the column for that of the query around
SELECT name FROM cell WHERE f > ANY (SELECT f FROM cell);
SELECT name FROM cell WHERE NOT f > ANY (SELECT f FROM cell);
--: duckdb the engine takes the column for that of the query around
SELECT name FROM cell WHERE EXISTS (SELECT 1 FROM gene WHERE gene.x > ALL (SELECT x FROM gene WHERE x < 3));
--: duckdb the engine takes the column for that of the query around
SELECT name FROM cell WHERE x = (SELECT min(x) FROM cell WHERE x > ALL (SELECT x FROM cell WHERE x < 3));
--: duckdb the engine takes the column for that of the query around
SELECT name FROM cell WHERE x > ALL (SELECT x FROM cell WHERE x >= ANY (SELECT x FROM cell WHERE x > 2) AND x < 6);

-- A subquery of one value that has no row is NULL, also where its column has none.
--: duckdb the engine takes a column that is never NULL for a value that never is
SELECT name FROM cell WHERE (SELECT 1 FROM gene WHERE x > 100) IS NULL;
--: duckdb the engine takes a column that is never NULL for a value that never is
WITH n AS (SELECT donor, count(*) AS n FROM cell GROUP BY donor) SELECT name FROM cell WHERE coalesce((SELECT n FROM n WHERE donor = 'none'), 0) = 0;
--: duckdb the engine takes a column that is never NULL for a value that never is
SELECT (SELECT 'a' FROM gene WHERE x > 100) IS NULL AS without, (SELECT true FROM gene WHERE x > 100) AS value;
SELECT name, coalesce((SELECT count(*) FROM gene g WHERE g.x = c.x), -1) AS n FROM cell c;
