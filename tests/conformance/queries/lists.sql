-- Lists of values: two of them for one column, where the engine by itself merges them, are what SQL says.

--: duckdb the engine by itself merges the lists
SELECT name FROM cell WHERE 1 IN (x, 2) AND 1 IN (y, NULL);
--: duckdb the engine by itself merges the lists
SELECT name FROM cell WHERE 1 IN (x, 3, 7, 8) AND 1 NOT IN (y, 3, NULL);
SELECT name FROM gene WHERE 2 IN (k, x) OR 2 NOT IN (k, NULL);
--: duckdb the engine by itself merges the lists
SELECT name FROM cell WHERE x IN (1, 2) AND x NOT IN (2, NULL);
--: duckdb the engine by itself merges the lists
SELECT name FROM cell WHERE x IN (1, 2) AND x NOT IN (2, y);
--: duckdb the engine by itself merges the lists
SELECT name FROM cell WHERE x IN (1, y) AND x IN (3, 4, 6, 7);
SELECT name FROM cell WHERE x NOT IN (1, y) OR x NOT IN (2, y);
SELECT name FROM cell WHERE i8 IN (1, 2) AND i8 NOT IN (2, NULL);
--: duckdb the engine by itself merges the lists
SELECT name FROM cell WHERE s IN ('abc', 'B') AND s NOT IN ('B', NULL);
--: duckdb the engine by itself merges the lists
SELECT name FROM gene WHERE NOT (chrom IN ('1', '2') AND chrom NOT IN ('1', '2'));
--: duckdb the engine by itself merges the lists
SELECT name FROM gene WHERE chrom NOT IN ('1', '2', '3', '4') OR chrom NOT IN ('5', '6');
SELECT name FROM cell WHERE x NOT IN (NULL);
--: duckdb the engine by itself merges the lists
SELECT name FROM cell WHERE x IN (1, 2) AND x NOT IN (2, CAST(NULL AS INT));
--: duckdb the engine by itself merges the lists
SELECT name FROM cell WHERE x IN (1, 2) AND x NOT IN (2, NULL + 1);
--: duckdb the engine by itself merges the lists
SELECT name FROM cell WHERE x IN (1, 2) AND x NOT IN (2, nullif(y, y));
--: duckdb the engine by itself merges the lists
SELECT name FROM cell WHERE x IN (1, 2) AND CAST(x AS BIGINT) NOT IN (2, NULL);
--: duckdb the engine by itself merges the lists
SELECT name FROM cell WHERE x IN (1, 2) AND x::BIGINT NOT IN (2, NULL);
SELECT name FROM cell WHERE x IN (1, 2) AND x + 0 NOT IN (2, NULL);
SELECT name FROM cell WHERE x IN (1, 2) AND 0 * y + x NOT IN (2, NULL);
--: duckdb the engine by itself merges the lists
SELECT name FROM cell WHERE x IN (1, 2) AND CASE WHEN true THEN x END NOT IN (2, NULL);
--: duckdb the engine by itself merges the lists
SELECT name FROM cell WHERE cell.x IN (1, 2) AND "x" NOT /* not */ IN /* in */ (2, NULL);
--: duckdb the engine by itself merges the lists
SELECT name FROM cell WHERE (x = 1 OR x = 2) AND x NOT IN (2, NULL);
SELECT name FROM cell WHERE x IN (2, NULL) OR x = 1 OR 4 = x;
--: duckdb the engine by itself merges the lists
SELECT name FROM cell WHERE (s LIKE 'abc' OR s LIKE 'B') AND s NOT IN ('B', NULL);
--: duckdb the engine by itself merges the lists
SELECT name FROM cell WHERE s ~ '^(abc|B)$' AND s NOT IN ('B', NULL);
SELECT name FROM cell WHERE x IN (1, 2, 3) AND (y > 0 AND x NOT IN (2, NULL));
--: duckdb the engine by itself merges the lists
SELECT name, CASE WHEN x IN (1, 2) AND x NOT IN (2, NULL) THEN 1 ELSE 0 END AS c FROM cell;
--: duckdb the engine by itself merges the lists
SELECT name, x IN (1, 2) AND x IN (3, NULL) AS p FROM cell;
--: duckdb the engine by itself merges the lists
SELECT x IN (1, 2) AND x NOT IN (2, NULL) AS p, count(*) AS n FROM cell GROUP BY 1;
--: duckdb the engine by itself merges the lists
SELECT x, count(*) FROM cell WHERE x IN (1, 2, 3, 4) GROUP BY x HAVING x NOT IN (2, 7, 8, 9, NULL);
--: duckdb the engine by itself merges the lists
SELECT x AS z, count(*) FROM cell WHERE x IN (1, 2, 3, 4) GROUP BY x HAVING z NOT IN (2, 7, 8, 9, NULL);
--: duckdb the engine by itself merges the lists
SELECT count(*) FILTER (WHERE x IN (1, 2, 3, 4) AND x NOT IN (2, 7, 8, 9, NULL)) AS n FROM cell;
--: duckdb the engine by itself merges the lists
SELECT z FROM (SELECT x AS z FROM cell WHERE x IN (1, 2, 3, 4)) WHERE z NOT IN (2, 7, 8, 9, NULL);
--: duckdb the engine by itself merges the lists
WITH w AS (SELECT x AS z FROM cell WHERE x IN (1, 2, 3, 4)) SELECT z FROM w WHERE z NOT IN (2, 7, 8, 9, NULL);
SELECT c.name FROM cell c JOIN gene t ON c.x = t.k WHERE c.x IN (1, 2, 3, 4) AND t.k NOT IN (2, 7, 8, 9, NULL);
SELECT c.name FROM cell c, gene t WHERE c.x = t.k AND c.x IN (1, 2, 3, 4) AND t.k NOT IN (2, 7, 8, 9, NULL);
SELECT c.name FROM cell c JOIN gene t ON c.x = t.k AND c.x IN (1, 2, 3, 4) AND t.k NOT IN (2, 7, 8, 9, NULL);
SELECT c.name FROM cell c LEFT JOIN gene t ON c.x = t.k AND t.k NOT IN (2, 7, 8, 9, NULL) WHERE c.x IN (1, 2, 3, 4);
--: duckdb the engine by itself merges the lists
SELECT c.x FROM cell c JOIN gene t USING (x) WHERE c.x IN (1, 2, 3, 4) AND t.x NOT IN (2, 7, 8, 9, NULL);
SELECT x FROM cell WHERE x IN (3, (SELECT min(x) FROM gene t)) AND x NOT IN (3, (SELECT min(k) FROM gene t));
SELECT c.name FROM cell c JOIN gene t ON c.x IS NOT DISTINCT FROM t.k WHERE c.x IN (1, 2, 3, 4) AND t.k NOT IN (2, 7, 8, 9, NULL);
SELECT x FROM cell WHERE x IN (1, 2, 3, 4) AND x IN (SELECT k FROM gene t WHERE k NOT IN (2, 7, 8, 9, NULL));
SELECT x FROM cell WHERE x IN (1, 2, 3, 4) INTERSECT SELECT k FROM gene t WHERE k NOT IN (2, 7, 8, 9, NULL);
SELECT x FROM cell WHERE x NOT IN (1, NULL) UNION ALL SELECT x FROM cell WHERE x NOT IN (2, 3);
SELECT x FROM cell WHERE x IN (1, 2) AND name IN (SELECT name FROM gene t UNION SELECT 'z') AND x NOT IN (2, NULL);
SELECT x FROM (SELECT x FROM cell WHERE x IN (1, 2) UNION SELECT 9) WHERE x NOT IN (2, NULL);
SELECT x FROM cell WHERE position('a' IN (s)) = 1 OR x IN (2, 3) AND x NOT IN (3, 5);
SELECT name FROM cell WHERE name IN ('a', 'b') AND s IN ('abc', 'B') AND x IN (1, 2);

-- Pairs over a column with NULL, as values and as conditions.
SELECT name, k IN (1, 2) AND k NOT IN (NULL) AS v FROM cell WHERE NOT (k IN (1, 2) AND k NOT IN (NULL));
SELECT name, k IN (1, 2) OR k NOT IN (NULL) AS v FROM cell WHERE NOT (k IN (1, 2) OR k NOT IN (NULL));
SELECT name, k NOT IN (1, 2) AND k NOT IN (NULL) AS v FROM cell WHERE NOT (k NOT IN (1, 2) AND k NOT IN (NULL));
SELECT name, k NOT IN (1, 2) OR k NOT IN (NULL) AS v FROM cell WHERE NOT (k NOT IN (1, 2) OR k NOT IN (NULL));
--: duckdb the engine by itself merges the lists
SELECT name, k IN (1, 2) AND k IN (NULL) AS v FROM cell WHERE NOT (k IN (1, 2) AND k IN (NULL));
SELECT name, k IN (1, 2) OR k IN (NULL) AS v FROM cell WHERE NOT (k IN (1, 2) OR k IN (NULL));
SELECT name, k IN (1, 2) AND k NOT IN (2, 3, NULL) AS v FROM cell WHERE NOT (k IN (1, 2) AND k NOT IN (2, 3, NULL));
SELECT name, k IN (1, 2) OR k NOT IN (2, 3, NULL) AS v FROM cell WHERE NOT (k IN (1, 2) OR k NOT IN (2, 3, NULL));
SELECT name, k NOT IN (1, 2) AND k NOT IN (2, 3, NULL) AS v FROM cell WHERE NOT (k NOT IN (1, 2) AND k NOT IN (2, 3, NULL));
SELECT name, k NOT IN (1, 2) OR k NOT IN (2, 3, NULL) AS v FROM cell WHERE NOT (k NOT IN (1, 2) OR k NOT IN (2, 3, NULL));
--: duckdb the engine by itself merges the lists
SELECT name, k IN (1, 2) AND k IN (2, 3, NULL) AS v FROM cell WHERE NOT (k IN (1, 2) AND k IN (2, 3, NULL));
SELECT name, k IN (1, 2) OR k IN (2, 3, NULL) AS v FROM cell WHERE NOT (k IN (1, 2) OR k IN (2, 3, NULL));
SELECT name, k IN (1, 2) AND k NOT IN (2, 3, 7, 8, 9) AS v FROM cell WHERE NOT (k IN (1, 2) AND k NOT IN (2, 3, 7, 8, 9));
SELECT name, k IN (1, 2) OR k NOT IN (2, 3, 7, 8, 9) AS v FROM cell WHERE NOT (k IN (1, 2) OR k NOT IN (2, 3, 7, 8, 9));
SELECT name, k NOT IN (1, 2) AND k NOT IN (2, 3, 7, 8, 9) AS v FROM cell WHERE NOT (k NOT IN (1, 2) AND k NOT IN (2, 3, 7, 8, 9));
SELECT name, k NOT IN (1, 2) OR k NOT IN (2, 3, 7, 8, 9) AS v FROM cell WHERE NOT (k NOT IN (1, 2) OR k NOT IN (2, 3, 7, 8, 9));
SELECT name, k IN (1, 2) AND k IN (2, 3, 7, 8, 9) AS v FROM cell WHERE NOT (k IN (1, 2) AND k IN (2, 3, 7, 8, 9));
SELECT name, k IN (1, 2) OR k IN (2, 3, 7, 8, 9) AS v FROM cell WHERE NOT (k IN (1, 2) OR k IN (2, 3, 7, 8, 9));
--: duckdb the engine by itself merges the lists
SELECT name, k IN (NULL) AND k NOT IN (1, 2) AS v FROM cell WHERE NOT (k IN (NULL) AND k NOT IN (1, 2));
--: duckdb the engine by itself merges the lists
SELECT name, k IN (NULL) OR k NOT IN (1, 2) AS v FROM cell WHERE NOT (k IN (NULL) OR k NOT IN (1, 2));
SELECT name, k NOT IN (NULL) AND k NOT IN (1, 2) AS v FROM cell WHERE NOT (k NOT IN (NULL) AND k NOT IN (1, 2));
SELECT name, k NOT IN (NULL) OR k NOT IN (1, 2) AS v FROM cell WHERE NOT (k NOT IN (NULL) OR k NOT IN (1, 2));
--: duckdb the engine by itself merges the lists
SELECT name, k IN (NULL) AND k IN (1, 2) AS v FROM cell WHERE NOT (k IN (NULL) AND k IN (1, 2));
SELECT name, k IN (NULL) OR k IN (1, 2) AS v FROM cell WHERE NOT (k IN (NULL) OR k IN (1, 2));
--: duckdb the engine by itself merges the lists
SELECT name, k IN (NULL) AND k NOT IN (2, 3, NULL) AS v FROM cell WHERE NOT (k IN (NULL) AND k NOT IN (2, 3, NULL));
--: duckdb the engine by itself merges the lists
SELECT name, k IN (NULL) OR k NOT IN (2, 3, NULL) AS v FROM cell WHERE NOT (k IN (NULL) OR k NOT IN (2, 3, NULL));
SELECT name, k NOT IN (NULL) AND k NOT IN (2, 3, NULL) AS v FROM cell WHERE NOT (k NOT IN (NULL) AND k NOT IN (2, 3, NULL));
SELECT name, k NOT IN (NULL) OR k NOT IN (2, 3, NULL) AS v FROM cell WHERE NOT (k NOT IN (NULL) OR k NOT IN (2, 3, NULL));
SELECT name, k IN (NULL) AND k IN (2, 3, NULL) AS v FROM cell WHERE NOT (k IN (NULL) AND k IN (2, 3, NULL));
SELECT name, k IN (NULL) OR k IN (2, 3, NULL) AS v FROM cell WHERE NOT (k IN (NULL) OR k IN (2, 3, NULL));
--: duckdb the engine by itself merges the lists
SELECT name, k IN (NULL) AND k NOT IN (2, 3, 7, 8, 9) AS v FROM cell WHERE NOT (k IN (NULL) AND k NOT IN (2, 3, 7, 8, 9));
--: duckdb the engine by itself merges the lists
SELECT name, k IN (NULL) OR k NOT IN (2, 3, 7, 8, 9) AS v FROM cell WHERE NOT (k IN (NULL) OR k NOT IN (2, 3, 7, 8, 9));
SELECT name, k NOT IN (NULL) AND k NOT IN (2, 3, 7, 8, 9) AS v FROM cell WHERE NOT (k NOT IN (NULL) AND k NOT IN (2, 3, 7, 8, 9));
SELECT name, k NOT IN (NULL) OR k NOT IN (2, 3, 7, 8, 9) AS v FROM cell WHERE NOT (k NOT IN (NULL) OR k NOT IN (2, 3, 7, 8, 9));
--: duckdb the engine by itself merges the lists
SELECT name, k IN (NULL) AND k IN (2, 3, 7, 8, 9) AS v FROM cell WHERE NOT (k IN (NULL) AND k IN (2, 3, 7, 8, 9));
SELECT name, k IN (NULL) OR k IN (2, 3, 7, 8, 9) AS v FROM cell WHERE NOT (k IN (NULL) OR k IN (2, 3, 7, 8, 9));

-- In views.
CREATE VIEW v AS SELECT name, x AS z, x NOT IN (2, 8, 9, NULL) AS p FROM cell WHERE x IN (1, 2, 3, 4);
--: duckdb the engine by itself merges the lists
SELECT z FROM v WHERE z NOT IN (2, 7, 8, 9, NULL);
SELECT z FROM v WHERE z NOT IN (1) OR p;
--: duckdb the engine by itself merges the lists
SELECT z FROM v WHERE p AND z IN (1, 3);
