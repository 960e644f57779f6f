-- Window functions: ranks, offsets, frames, aggregates, named windows, windows over groups.

SELECT name, row_number() OVER (ORDER BY name) FROM cell;
SELECT name, row_number() OVER (PARTITION BY b ORDER BY name DESC) FROM cell;
SELECT name, rank() OVER (ORDER BY x) FROM cell;
SELECT name, dense_rank() OVER (ORDER BY x DESC) FROM cell;
SELECT name, rank() OVER (PARTITION BY donor ORDER BY x DESC) AS r FROM cell;
SELECT name, percent_rank() OVER (ORDER BY x), cume_dist() OVER (ORDER BY x) FROM cell;
SELECT name, ntile(4) OVER (ORDER BY name) FROM cell;
SELECT name, lag(x) OVER (ORDER BY name), lead(x) OVER (ORDER BY name) FROM cell;
SELECT name, lag(x, 2) OVER (ORDER BY name), lead(x, 2, -1) OVER (ORDER BY name) FROM cell;
SELECT name, lag(donor) OVER (PARTITION BY b ORDER BY name) FROM cell;
SELECT name, lag(k, 1, 0) OVER (ORDER BY name) FROM cell;
SELECT name, first_value(x) OVER (PARTITION BY y ORDER BY name) FROM cell;
SELECT name, last_value(x) OVER (PARTITION BY y ORDER BY name) FROM cell;
SELECT name, last_value(x) OVER (PARTITION BY y ORDER BY name ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM cell;
SELECT name, nth_value(name, 2) OVER (PARTITION BY y ORDER BY name) FROM cell;
SELECT name, sum(x) OVER () FROM cell;
SELECT name, sum(x) OVER (ORDER BY name) FROM cell;
SELECT name, sum(x) OVER (ORDER BY x) FROM cell;
SELECT name, sum(k) OVER (PARTITION BY b ORDER BY name) FROM cell;
SELECT name, avg(f) OVER (PARTITION BY donor) FROM cell;
SELECT name, avg(f) OVER (ORDER BY name ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM cell;
SELECT name, count(*) OVER (PARTITION BY x), count(k) OVER (PARTITION BY x) FROM cell;
SELECT name, min(x) OVER (ORDER BY name ROWS 2 PRECEDING), max(x) OVER (ORDER BY name ROWS 2 PRECEDING) FROM cell;
SELECT name, sum(x) OVER (ORDER BY name ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM cell;
SELECT name, sum(x) OVER (ORDER BY name ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) FROM cell;
SELECT name, sum(x) OVER (ORDER BY y RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM cell;
SELECT name, count(*) OVER (ORDER BY x RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM cell;
SELECT name, sum(x) OVER (ORDER BY y GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM cell;
SELECT name, max(donor) OVER (PARTITION BY b), min(s) OVER (PARTITION BY y) FROM cell;
SELECT name, rank() OVER w, sum(x) OVER w FROM cell WINDOW w AS (PARTITION BY y ORDER BY x);
SELECT name, row_number() OVER v - rank() OVER w FROM cell WINDOW v AS (ORDER BY x, name), w AS (ORDER BY x);
--: duckdb ranks are UInt64 in the engine, whose differences wrap around
SELECT name, rank() OVER (ORDER BY x) - row_number() OVER (ORDER BY x DESC, name) FROM cell;
SELECT name, x - lag(x) OVER (ORDER BY name) AS step FROM cell;
SELECT name, x * 1.0 / sum(x) OVER (PARTITION BY y) AS share FROM cell;
SELECT name, u - first_value(u) OVER (ORDER BY name) AS d FROM cell WHERE x = 1;
SELECT name, row_number() OVER (PARTITION BY k ORDER BY name) FROM cell;
SELECT name, rank() OVER (ORDER BY k NULLS FIRST) FROM cell;
SELECT name, rank() OVER (ORDER BY k DESC NULLS LAST, donor NULLS FIRST) FROM cell;
SELECT name, rank() OVER (PARTITION BY maybe ORDER BY f DESC NULLS LAST) FROM cell;
SELECT name, dense_rank() OVER (ORDER BY donor NULLS LAST) FROM cell;
SELECT name, dense_rank() OVER (ORDER BY upper(s)) FROM cell;
SELECT name, rank() OVER (PARTITION BY x > 2 ORDER BY x % 3) FROM cell;
SELECT name, row_number() OVER (ORDER BY name) AS r FROM cell WHERE k > 2;
SELECT name FROM (SELECT name, row_number() OVER (PARTITION BY donor ORDER BY x DESC, name) AS r FROM cell) WHERE r = 1;
SELECT name FROM (SELECT name, x, rank() OVER (ORDER BY x DESC) AS r FROM cell) WHERE r <= 3 AND x > 1;
SELECT name, r FROM (SELECT name, y, rank() OVER (PARTITION BY y ORDER BY x) AS r FROM cell) WHERE y = 2;
SELECT donor, r FROM (SELECT donor, count(*) AS n, rank() OVER (ORDER BY count(*) DESC, donor) AS r FROM cell WHERE donor IS NOT NULL GROUP BY donor);
SELECT donor, sum(x), sum(sum(x)) OVER () FROM cell GROUP BY donor;
--: datafusion integers are divided as integers
SELECT x, count(*) AS n, count(*) * 100 / sum(count(*)) OVER () AS percent FROM cell GROUP BY x;
SELECT x, lag(count(*)) OVER (ORDER BY x) FROM cell GROUP BY x;
SELECT DISTINCT y, max(x) OVER (PARTITION BY y) AS m FROM cell;
SELECT name, row_number() OVER (ORDER BY name) FROM cell QUALIFY row_number() OVER (ORDER BY name) < 4;
SELECT name, x FROM cell QUALIFY rank() OVER (PARTITION BY y ORDER BY x DESC, name) = 1;
SELECT name, sum(x) FILTER (WHERE b) OVER (ORDER BY name) FROM cell;
SELECT c.name, rank() OVER (PARTITION BY g.name ORDER BY c.x DESC, c.name) FROM cell c JOIN gene g ON c.marker = g.name;
SELECT g.name, count(*), rank() OVER (ORDER BY count(*) DESC, g.name) FROM cell c JOIN gene g ON c.marker = g.name GROUP BY g.name;
SELECT name, row_number() OVER (ORDER BY (SELECT max(x) FROM gene), name) AS r FROM cell;
SELECT name, string_agg(name, '') OVER (PARTITION BY y ORDER BY name) FROM cell;
SELECT name, stddev(x) OVER (PARTITION BY y) FROM cell;
SELECT name, count(DISTINCT x) OVER (PARTITION BY y) FROM cell;
--: ordered
SELECT name, rank() OVER (ORDER BY x) AS r FROM cell ORDER BY r, name LIMIT 6;
--: ordered
SELECT name FROM cell ORDER BY row_number() OVER (ORDER BY x DESC, name) LIMIT 5;
