-- Aggregates without groups, in groups, with FILTER, DISTINCT and HAVING.

SELECT sum(x), avg(x), min(x), max(x), count(x) FROM cell;
SELECT sum(k), avg(k), min(k), max(k), count(k), count(*) FROM cell;
SELECT sum(f), avg(f), min(f), max(f), count(f) FROM cell;
SELECT sum(f32), avg(f32), min(f32), max(f32) FROM cell;
SELECT sum(u8), avg(u8), min(u8), max(u8) FROM cell;
SELECT sum(i8), sum(i16), sum(u), sum(v), avg(i8), avg(u) FROM cell;
SELECT min(huge), max(huge), count(huge) FROM cell;
SELECT min(s), max(s), min(donor), max(donor), count(donor) FROM cell;
SELECT min(name), max(name) FROM cell;
SELECT min(b), max(b) FROM cell;
SELECT count(maybe), count(b) FROM cell;
SELECT bool_and(b), bool_or(b), bool_and(maybe), bool_or(maybe) FROM cell;
SELECT sum(x), count(*) FROM cell WHERE x > 100;
SELECT min(x), max(x), avg(x), min(s) FROM cell WHERE false;
SELECT count(DISTINCT x), count(DISTINCT k), count(DISTINCT donor), count(DISTINCT maybe) FROM cell;
SELECT sum(DISTINCT x), avg(DISTINCT x), min(DISTINCT x) FROM cell;
SELECT sum(DISTINCT k) FROM cell;
SELECT median(x), median(k), median(y) FROM cell;
SELECT median(f) FROM cell;
SELECT stddev(x), var_samp(x), var_pop(x), stddev_pop(x) FROM cell;
SELECT stddev(f), var_pop(f) FROM cell WHERE f > 3;
SELECT var_samp(x), stddev(x) FROM cell WHERE name = 'c00';
SELECT corr(x, y), covar_pop(x, y), covar_samp(x, y) FROM cell;
SELECT corr(x, f), regr_slope(y, x), regr_intercept(y, x), regr_count(y, x) FROM cell;
SELECT bit_and(x), bit_or(x), bit_xor(x) FROM cell;
SELECT sum(x + y), sum(x) + sum(y), sum(x * 2) / 2 FROM cell;
SELECT sum(CASE WHEN b THEN 1 ELSE 0 END) FROM cell;
SELECT avg(CASE WHEN b THEN x END) FROM cell;
SELECT count(*) FILTER (WHERE b), sum(x) FILTER (WHERE x > 2) FROM cell;
SELECT count(*) FILTER (WHERE maybe), count(k) FILTER (WHERE NOT maybe) FROM cell;
SELECT avg(f) FILTER (WHERE k IS NULL), min(x) FILTER (WHERE x > 100) FROM cell;
SELECT string_agg(name, ',' ORDER BY name) FROM cell WHERE x = 2;
SELECT string_agg(donor, ',' ORDER BY name) FROM cell;
SELECT array_agg(x ORDER BY name) FROM cell WHERE x < 3;
SELECT array_agg(name ORDER BY x DESC, name) FROM cell WHERE b;
SELECT array_agg(DISTINCT x ORDER BY x) FROM cell;
SELECT array_agg(k ORDER BY name) FROM cell WHERE y = 1;
--: datafusion DuckDB calls this aggregate first
SELECT first_value(name ORDER BY name), last_value(name ORDER BY name) FROM cell;
--: datafusion DuckDB calls this aggregate first
SELECT first_value(name ORDER BY x DESC, name) FROM cell WHERE b;
SELECT sum(1), count(1), sum(1.5) FROM cell;
SELECT max(x) - min(x) AS spread FROM cell;
SELECT round(avg(f), 2), floor(avg(x)) FROM cell;
SELECT coalesce(sum(k), 0), coalesce(sum(x), -1) FROM cell WHERE name = 'c01';
SELECT x, count(*) FROM cell GROUP BY x;
SELECT x, count(*) AS n FROM cell GROUP BY 1;
SELECT x AS z, count(*) FROM cell GROUP BY z;
SELECT count(*), x FROM cell GROUP BY x;
SELECT count(*) FROM cell GROUP BY x;
SELECT k, count(*), count(k), sum(x) FROM cell GROUP BY k;
SELECT donor, count(*) FROM cell GROUP BY donor;
SELECT donor, avg(f), min(k), max(s) FROM cell GROUP BY donor;
SELECT donor, sum(u), avg(u8), min(i8), max(i16) FROM cell GROUP BY donor;
SELECT s, count(*) FROM cell GROUP BY s;
SELECT louvain, count(*), avg(x) FROM cell GROUP BY louvain;
SELECT stage, count(*), sum(x) FROM cell GROUP BY stage;
SELECT b, count(*), sum(k) FROM cell GROUP BY b;
SELECT maybe, count(*), sum(x), avg(f) FROM cell GROUP BY maybe;
SELECT f, count(*) FROM cell GROUP BY f;
SELECT f32, sum(x) FROM cell GROUP BY f32;
SELECT u8, count(*) FROM cell GROUP BY u8;
SELECT huge, count(*), min(x) FROM cell GROUP BY huge;
SELECT "two words", count(*) FROM cell GROUP BY "two words";
SELECT donor, b, count(*) FROM cell GROUP BY donor, b;
SELECT donor, maybe, sum(x) FROM cell GROUP BY 1, 2;
SELECT donor, louvain, avg(x), max(k) FROM cell GROUP BY donor, louvain;
SELECT x, y, b, count(*) FROM cell GROUP BY x, y, b;
SELECT x + y, count(*) FROM cell GROUP BY x + y;
SELECT x % 2 AS odd, count(*) FROM cell GROUP BY x % 2;
SELECT upper(donor), count(*) FROM cell GROUP BY upper(donor);
SELECT x > 2, count(*) FROM cell GROUP BY x > 2;
SELECT k > 2 AS high, count(*) FROM cell GROUP BY k > 2;
SELECT CASE WHEN x < 3 THEN 'low' ELSE 'high' END AS c, count(*) FROM cell GROUP BY c;
SELECT coalesce(donor, 'unknown') AS d, count(*) FROM cell GROUP BY d;
SELECT length(s), sum(x) FROM cell GROUP BY length(s);
SELECT x FROM cell GROUP BY x;
SELECT x, y FROM cell GROUP BY x, y;
SELECT x, sum(y) FROM cell GROUP BY x HAVING sum(y) > 4;
SELECT x FROM cell GROUP BY x HAVING count(*) > 3;
SELECT donor, count(*) AS n FROM cell GROUP BY donor HAVING n > 4;
SELECT donor, avg(x) FROM cell GROUP BY donor HAVING avg(x) > 4 AND donor IS NOT NULL;
SELECT donor FROM cell GROUP BY donor HAVING donor > 'N1';
SELECT donor FROM cell GROUP BY donor HAVING min(k) IS NULL OR max(k) > 5;
SELECT count(*) FROM cell HAVING count(*) > 5;
SELECT count(*) FROM cell HAVING count(*) > 500;
SELECT sum(x) FROM cell WHERE b GROUP BY donor HAVING max(x) > 4;
SELECT donor, count(DISTINCT x), count(DISTINCT k) FROM cell GROUP BY donor;
SELECT donor, sum(DISTINCT x), count(*) FROM cell GROUP BY donor;
SELECT donor, count(DISTINCT louvain), count(DISTINCT s), sum(x) FROM cell GROUP BY donor;
SELECT donor, median(x), median(k) FROM cell GROUP BY donor;
SELECT donor, stddev(x), var_pop(x) FROM cell GROUP BY donor;
SELECT donor, bool_and(b), bool_or(maybe) FROM cell GROUP BY donor;
SELECT donor, count(*) FILTER (WHERE b), sum(x) FILTER (WHERE maybe) FROM cell GROUP BY donor;
SELECT donor, sum(x) + 1, sum(x) * 2.0 / count(*) FROM cell GROUP BY donor;
SELECT donor, max(x) - min(y) FROM cell GROUP BY donor;
SELECT donor, array_agg(name ORDER BY name) FROM cell GROUP BY donor;
SELECT donor, string_agg(name, '-' ORDER BY name DESC) FROM cell GROUP BY donor;
--: datafusion DuckDB calls this aggregate first
SELECT donor, first_value(name ORDER BY k DESC NULLS LAST, name) FROM cell GROUP BY donor;
SELECT b, sum(x) FROM cell WHERE k IS NOT NULL AND donor <> 'N1' GROUP BY b;
SELECT donor, count(*) FROM cell WHERE donor IN ('N1', 'N2') GROUP BY donor;
SELECT donor, sum(x) FROM cell WHERE false GROUP BY donor;
SELECT donor, min(edge), max(edge) FROM cell WHERE edge < 1e10 AND edge > -1e10 GROUP BY donor;
SELECT x, grouping(x), count(*) FROM cell GROUP BY ROLLUP (x);
SELECT donor, b, count(*) FROM cell GROUP BY ROLLUP (donor, b);
SELECT donor, b, sum(x) FROM cell GROUP BY CUBE (donor, b);
SELECT donor, b, count(*) FROM cell GROUP BY GROUPING SETS ((donor), (b), ());
SELECT donor, b, grouping(donor), grouping(b), count(*) FROM cell GROUP BY GROUPING SETS ((donor, b), (donor), ());
SELECT donor, count(*) FROM cell GROUP BY ALL;
SELECT chrom, count(*), sum(k) FROM gene GROUP BY chrom;
SELECT is_marker, avg(x), max(name) FROM gene GROUP BY is_marker;
--: ordered
SELECT donor, count(*) AS n FROM cell GROUP BY donor ORDER BY n DESC, donor NULLS LAST;
--: ordered
SELECT x, sum(y) FROM cell GROUP BY x ORDER BY sum(y), x;
--: ordered
SELECT x, count(*) FROM cell GROUP BY x ORDER BY x LIMIT 3;
--: ordered
SELECT x FROM cell GROUP BY x ORDER BY max(k) DESC NULLS LAST, x LIMIT 2 OFFSET 1;
SELECT avg(n) FROM (SELECT count(*) AS n FROM cell GROUP BY x);
SELECT max(n), min(n) FROM (SELECT donor, count(*) AS n FROM cell GROUP BY donor);
SELECT n, count(*) FROM (SELECT count(*) AS n FROM cell GROUP BY x) GROUP BY n;
SELECT d, sum(n) FROM (SELECT donor AS d, x, count(*) AS n FROM cell GROUP BY donor, x) GROUP BY d;
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FROM cell;
--: duckdb DataFusion calls the groups nullable where it plans them, and then refuses them
SELECT count(*) FILTER (WHERE maybe IS TRUE) AS t, count(*) FILTER (WHERE maybe IS TRUE AND x > 2) AS n FROM cell;
--: duckdb as above
SELECT count(DISTINCT maybe IS NOT TRUE) AS n FROM cell;
--: datafusion it is a function of DataFusion
SELECT approx_distinct(x) FROM cell;
SELECT avg(b::INT) FROM cell;
SELECT sum(x)::DOUBLE / count(*) FROM cell;

-- A list, or a chain of OR, in SELECT and in GROUP BY: both have to be the same to the engine.
SELECT CASE WHEN k IN (1, 2) THEN 'few' ELSE 'many' END AS g, count(*) FROM cell GROUP BY CASE WHEN k IN (1, 2) THEN 'few' ELSE 'many' END;
SELECT k IN (1, 2), count(*) FROM cell WHERE k IN (1, 2, 3) GROUP BY k IN (1, 2);
SELECT k = 1 OR k = 2, count(*) FROM cell GROUP BY (k = 1 OR k = 2);
SELECT (k = 1 OR k = 2) AS a, x <> 3 AND x <> 4 b, count(*) FROM cell GROUP BY k = 1 OR k = 2, x <> 3 AND x <> 4;

-- mode: as a string, without missing values, the first in the alphabet of several.
--: theirs SELECT x, min(d) AS m FROM (SELECT x, donor AS d, count(*) AS n, max(count(*)) OVER (PARTITION BY x) AS most FROM cell WHERE donor IS NOT NULL GROUP BY x, donor) WHERE n = most GROUP BY x
SELECT x, mode(donor) AS m FROM cell GROUP BY x HAVING count(donor) > 0;
--: rows [["B"]]
SELECT mode(louvain) AS m FROM cell;
--: rows [["2"]]
SELECT mode(x) AS m FROM cell;
--: rows [[null]]
SELECT mode(name) AS m FROM cell WHERE x > 9;
--: rows [["2"]]
SELECT DISTINCT mode(x) OVER () AS m FROM cell;

-- A condition on a constant beside an aggregate of all rows, which has a row in any case.
--: duckdb the engine evaluates the condition before it aggregates
SELECT * FROM (SELECT 'cell' AS kind, count(*) AS n FROM cell UNION ALL SELECT 'gene', count(*) FROM gene) WHERE kind = 'gene';
SELECT * FROM (SELECT 'a' AS kind, max(x) AS m FROM cell) WHERE kind = 'b' OR m > 100;
--: duckdb the engine evaluates the condition before it aggregates
SELECT * FROM (SELECT 'a' AS kind, n FROM (SELECT count(*) AS n FROM cell)) WHERE kind <> 'a';
--: rows []
WITH w AS (SELECT 1 AS one, sum(x) AS s, mode(s) AS m FROM cell) SELECT * FROM w WHERE one = 2;
SELECT g.name, w.n FROM gene g JOIN (SELECT 'X' AS chrom, count(*) AS n FROM cell) w ON g.chrom = w.chrom AND w.chrom = '1';
--: duckdb the engine evaluates the condition before it aggregates
SELECT * FROM (SELECT 1 AS one, donor, count(*) AS n FROM cell GROUP BY ROLLUP(donor)) WHERE one = 2;
--: duckdb the engine evaluates the condition before it aggregates
SELECT name FROM cell WHERE x > (SELECT n FROM (SELECT 'a' AS kind, count(*) AS n FROM cell) WHERE kind = 'b');
SELECT * FROM (SELECT 'a' AS kind, count(*) OVER () AS n, x FROM cell) WHERE kind = 'a' AND x > 5;
