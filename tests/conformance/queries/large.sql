-- Axes of 200,000 rows: ranges that are skipped, zone maps, indexes, groups, joins, sorts.
-- The axis gene has the 60 donors.
--: file only large

SELECT count(*) FROM cell;
SELECT count(*), count(k), count(f), count(donor), count(day) FROM cell;
SELECT name, x FROM cell WHERE name = 'c123456';
SELECT name, x FROM cell WHERE name IN ('c000000', 'c199999', 'c100000', 'c0', 'c200000');
SELECT count(*), min(name), max(name) FROM cell WHERE name > 'c199000';
SELECT count(*), sum(x) FROM cell WHERE name LIKE 'c0123%';
SELECT name FROM cell WHERE name BETWEEN 'c004999' AND 'c005001';
SELECT count(*), sum(total) FROM cell WHERE total < 3000;
SELECT count(*), min(total), max(total) FROM cell WHERE total BETWEEN 299990 AND 300300;
SELECT name FROM cell WHERE total = 300003;
SELECT name FROM cell WHERE total = 300004;
SELECT name FROM cell WHERE total IN (0, 3, 599997, 600000, NULL);
SELECT count(*) FROM cell WHERE total NOT IN (0, 3, 599997);
SELECT count(*), sum(x) FROM cell WHERE total < 100 OR total > 599900;
SELECT count(*), sum(x) FROM cell WHERE NOT (total >= 100 AND total <= 599900);
SELECT count(*), sum(x) FROM cell WHERE batch = 17;
SELECT count(*) FROM cell WHERE batch = 17 AND x < 500;
SELECT count(*) FROM cell WHERE batch IN (3, 17, 39, 40);
SELECT count(*) FROM cell WHERE batch <> 17;
SELECT count(*), min(name) FROM cell WHERE plate = 'plate 77';
SELECT count(*) FROM cell WHERE plate LIKE 'plate 4_';
SELECT count(*), count(DISTINCT plate) FROM cell WHERE plate LIKE 'plate 4%';
SELECT count(*) FROM cell WHERE plate IN ('plate 1', 'plate 499', 'plate 500');
SELECT count(*) FROM cell WHERE plate > 'plate 98' AND b;
SELECT name FROM cell WHERE code = 'k777';
SELECT name, code FROM cell WHERE code IN ('k1', 'k20010', 'k20011');
SELECT count(*) FROM cell WHERE code LIKE 'k123%';
SELECT count(*) FROM cell WHERE code <> 'k777';
SELECT count(*) FROM cell WHERE upper(code) = 'K777';
SELECT name FROM cell WHERE x = 4242;
SELECT name, x FROM cell WHERE x IN (1, 10006, 10007) AND b;
SELECT count(*), sum(total) FROM cell WHERE x BETWEEN 100 AND 110;
SELECT count(*) FROM cell WHERE x < 0 OR x > 10007;
SELECT count(*), avg(f) FROM cell WHERE f > 500;
SELECT count(*) FROM cell WHERE f IS NULL;
SELECT count(*) FROM cell WHERE f IS NULL AND k IS NULL;
SELECT count(*) FROM cell WHERE f > 511 OR k = 7;
SELECT count(*) FROM cell WHERE NOT (f > 100) AND k > 500;
SELECT count(*) FROM cell WHERE k IS NULL OR k NOT IN (1, 2, 3);
SELECT count(*) FROM cell WHERE (k > 500) IS NOT TRUE;
SELECT count(*) FROM cell WHERE donor IS NULL;
SELECT count(*) FROM cell WHERE donor <> 'N7';
SELECT count(*), sum(x) FROM cell WHERE donor = 'N7' AND batch < 4;
SELECT count(*) FROM cell WHERE donor IN ('N1', 'N10') AND donor NOT IN ('N10', 'N2');
SELECT count(*) FROM cell WHERE f32 = 0.25 OR f32 > 249;
SELECT count(*) FROM cell WHERE u8 = 255 AND u > 4000000000;
SELECT count(*) FROM cell WHERE b AND kind = 'NK';
SELECT count(*) FROM cell WHERE x = k;
SELECT count(*) FROM cell WHERE x > total;
SELECT count(*) FROM cell WHERE x + k > 10800;
SELECT count(*) FROM cell WHERE day >= '2023-12-01';
SELECT min(day), max(day), count(DISTINCT day) FROM cell WHERE donor = 'N1';
SELECT count(*) FROM cell WHERE day IS NULL AND total < 60000;
SELECT sum(x), avg(x), min(x), max(x) FROM cell;
SELECT sum(k), avg(k), min(f), max(f), sum(f), avg(f32) FROM cell;
SELECT sum(u), max(u8), count(DISTINCT code), count(DISTINCT k) FROM cell;
SELECT median(x), median(k) FROM cell;
SELECT stddev(f), var_pop(x) FROM cell WHERE batch = 1;
SELECT donor, count(*), avg(f), sum(k) FROM cell GROUP BY donor;
SELECT donor, count(*), min(f32), max(x) FROM cell WHERE b GROUP BY donor;
SELECT kind, b, count(*), sum(x) FROM cell GROUP BY kind, b;
SELECT k, count(*) FROM cell WHERE k < 20 OR k IS NULL GROUP BY k;
SELECT plate, count(*), min(total) FROM cell GROUP BY plate HAVING min(total) > 590000;
SELECT batch, count(DISTINCT donor), count(DISTINCT code) FROM cell GROUP BY batch;
SELECT u8, sum(u), avg(k) FROM cell GROUP BY u8;
SELECT x % 10 AS digit, count(*) FROM cell GROUP BY x % 10;
SELECT date_trunc('year', day) AS y, count(*) FROM cell GROUP BY y;
SELECT code, count(*) AS n FROM cell GROUP BY code HAVING count(*) > 24;
SELECT count(*) FROM (SELECT code, donor FROM cell GROUP BY code, donor);
SELECT DISTINCT donor, kind FROM cell WHERE batch < 2;
SELECT sex, count(*), avg(f) FROM cell JOIN gene ON cell.donor = gene.name GROUP BY sex;
SELECT is_old, count(*), sum(x) FROM cell JOIN gene ON cell.donor = gene.name WHERE batch > 30 GROUP BY is_old;
SELECT count(*), count(g.age) FROM cell c LEFT JOIN gene g ON c.donor = g.name AND g.age > 40;
SELECT count(*) FROM cell c LEFT JOIN gene g ON c.donor = g.name WHERE g.name IS NULL;
SELECT c.name, g.age FROM cell c JOIN gene g ON c.donor = g.name WHERE c.total < 60;
SELECT count(*) FROM cell WHERE donor IN (SELECT name FROM gene WHERE sex = 'f');
SELECT count(*) FROM cell WHERE donor NOT IN (SELECT name FROM gene WHERE age > 10);
SELECT count(*) FROM cell WHERE EXISTS (SELECT 1 FROM gene WHERE gene.name = cell.donor AND gene.age < 20);
SELECT count(*) FROM cell a JOIN cell b ON a.x = b.x AND a.name < b.name WHERE a.batch = 1 AND b.batch = 2;
SELECT count(*) FROM cell a JOIN cell b ON a.name = b.name WHERE a.total < 3000;
SELECT count(*) FROM cell WHERE x = (SELECT max(x) FROM cell WHERE batch = 5);
SELECT count(*) FROM cell WHERE code IN (SELECT code FROM cell WHERE total < 30);
SELECT count(*) FROM (SELECT x FROM cell UNION SELECT k FROM cell);
SELECT count(*) FROM (SELECT code FROM cell WHERE batch = 1 INTERSECT SELECT code FROM cell WHERE batch = 2);
SELECT count(*) FROM (SELECT name FROM cell LIMIT 1000 OFFSET 199500);
SELECT count(*) FROM (SELECT name FROM cell WHERE b LIMIT 70000);
SELECT donor, name FROM (SELECT donor, name, row_number() OVER (PARTITION BY donor ORDER BY x, name) AS r FROM cell) WHERE r = 1;
SELECT sum(r) FROM (SELECT rank() OVER (ORDER BY x) AS r FROM cell);
SELECT max(s) FROM (SELECT sum(x) OVER (PARTITION BY batch ORDER BY total) AS s FROM cell);
SELECT CASE WHEN f > 256 THEN 'high' WHEN f IS NULL THEN 'none' ELSE 'low' END AS level, count(*) FROM cell GROUP BY level;
--: theirs SELECT sum(u::BIGINT - x), min(u8::BIGINT - 300) FROM cell
SELECT sum(u - x), min(u8 - 300) FROM cell;
--: theirs SELECT count(*) FROM cell WHERE u8::BIGINT - u < -4000000000
SELECT count(*) FROM cell WHERE u8 - u < -4000000000;
--: ordered
SELECT name FROM cell ORDER BY name LIMIT 5;
--: ordered
SELECT name FROM cell ORDER BY name DESC LIMIT 5 OFFSET 3;
--: ordered
SELECT name, x FROM cell ORDER BY x DESC, name LIMIT 7;
--: ordered
SELECT name, k FROM cell WHERE b ORDER BY k NULLS FIRST, name DESC LIMIT 6;
--: ordered
SELECT name FROM cell WHERE total > 300000 ORDER BY total LIMIT 4;
--: ordered
SELECT donor, count(*) AS n FROM cell GROUP BY donor ORDER BY n DESC, donor NULLS LAST LIMIT 5;
--: ordered
SELECT plate, avg(x) AS m FROM cell GROUP BY plate ORDER BY m DESC, plate LIMIT 5;
--: ordered
SELECT name FROM (SELECT name, x FROM cell ORDER BY total LIMIT 5 OFFSET 100000) ORDER BY x, name;
--: theirs SELECT u8, min(d) AS m FROM (SELECT u8, donor AS d, count(*) AS n, max(count(*)) OVER (PARTITION BY u8) AS most FROM cell WHERE donor IS NOT NULL GROUP BY u8, donor) WHERE n = most GROUP BY u8
SELECT u8, mode(donor) AS m FROM cell GROUP BY u8;

-- One row, limited, joined with itself: nothing keeps it from being in order.
--: ordered
WITH a AS (SELECT sum(x) AS n FROM cell) SELECT x.n FROM a x JOIN (SELECT n FROM a ORDER BY n LIMIT 1) y ON x.n = y.n ORDER BY x.n;
