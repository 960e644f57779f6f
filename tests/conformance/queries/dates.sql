-- Dates and times.  An h5ad file has them as text.
--: file not h5ad

SELECT name, day FROM cell;
SELECT name FROM cell WHERE day >= '2024-01-10';
SELECT name FROM cell WHERE day < TIMESTAMP '2024-01-10 12:00:00';
SELECT name FROM cell WHERE day BETWEEN '2024-01-03' AND '2024-01-20';
SELECT name FROM cell WHERE day = '2023-12-30 22:30:00';
SELECT name FROM cell WHERE day <> '2023-12-30 22:30:00';
SELECT name FROM cell WHERE day IS NULL;
SELECT name FROM cell WHERE day IS NOT NULL AND x > 2;
SELECT name FROM cell WHERE day > DATE '2024-01-15';
SELECT name FROM cell WHERE CAST(day AS DATE) = DATE '2024-01-01';
SELECT name FROM cell WHERE day IN (TIMESTAMP '2023-12-30 22:30:00', TIMESTAMP '2024-01-01 05:30:00');
SELECT name FROM cell WHERE extract(year FROM day) = 2024 AND extract(month FROM day) = 1;
SELECT name FROM cell WHERE date_part('dow', day) = 1;
SELECT min(day), max(day), count(day), count(*) FROM cell;
SELECT max(day) FROM cell WHERE b;
SELECT count(day) FROM cell WHERE b;
SELECT count(DISTINCT day) FROM cell;
SELECT day + INTERVAL '1 day' FROM cell;
SELECT day - INTERVAL '2 hours' FROM cell WHERE b;
SELECT day - INTERVAL '1 month' FROM cell;
SELECT date_part('year', day), date_part('month', day), date_part('day', day) FROM cell;
SELECT date_part('hour', day), date_part('minute', day) FROM cell;
SELECT extract(doy FROM day), extract(quarter FROM day), extract(week FROM day) FROM cell;
SELECT date_trunc('day', day), date_trunc('month', day), date_trunc('hour', day) FROM cell;
SELECT CAST(day AS DATE) FROM cell;
--: datafusion the text of a timestamp has a T
SELECT CAST(day AS VARCHAR) FROM cell;
SELECT CAST(day AS DATE) AS d, count(*) FROM cell GROUP BY d;
SELECT date_trunc('week', day) AS w, count(*), sum(x) FROM cell GROUP BY w;
SELECT day, count(*) FROM cell GROUP BY day;
SELECT b, min(day), max(day), count(day) FROM cell GROUP BY b;
SELECT DISTINCT date_part('year', day) FROM cell;
SELECT coalesce(day, TIMESTAMP '2000-01-01') FROM cell;
SELECT CASE WHEN day > '2024-01-10' THEN 'late' WHEN day IS NULL THEN 'unknown' ELSE 'early' END FROM cell;
SELECT a.name, b.name AS other FROM cell a JOIN cell b ON a.day = b.day;
SELECT a.name FROM cell a JOIN cell b ON a.day < b.day AND b.x = 8;
SELECT name, lag(day) OVER (ORDER BY name) FROM cell;
SELECT name, rank() OVER (ORDER BY day NULLS LAST) FROM cell;
SELECT name FROM cell WHERE day = (SELECT max(day) FROM cell);
--: ordered
SELECT name, day FROM cell ORDER BY day NULLS FIRST, name;
--: ordered
SELECT name FROM cell WHERE day > '2024-01-05' ORDER BY day DESC LIMIT 3;
--: datafusion a date and days are a date
SELECT DATE '2024-02-28' + INTERVAL '2 days', DATE '2024-03-01' - DATE '2024-02-01';
SELECT TIMESTAMP '2024-01-01 00:00:00' - TIMESTAMP '2023-12-31 22:00:00';
SELECT day - TIMESTAMP '2024-01-01 00:00:00' FROM cell;
--: datafusion it is a function of DataFusion
SELECT to_timestamp('2024-01-01 10:00:00'), to_date('2024-01-01');
--: datafusion it is a function of DataFusion
SELECT date_bin(INTERVAL '7 days', day, TIMESTAMP '2024-01-01') FROM cell;
SELECT make_date(2024, x, 1) FROM cell;
--: datafusion it is a function of DataFusion
SELECT to_unixtime(day) FROM cell;
SELECT INTERVAL '1 day', INTERVAL '1 month 2 days', INTERVAL '90 minutes';
SELECT now() > TIMESTAMP '2020-01-01', current_date > DATE '2020-01-01';
