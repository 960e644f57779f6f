-- Arithmetic, functions of numbers, casts.  Narrow and unsigned integers are in narrow_integers.sql.
--: file only directory, indexed, collection, own

SELECT x + y, x - y, x * y FROM cell;
SELECT k + x, k - 1, k * 2, -k FROM cell;
--: datafusion integers are divided as integers
SELECT x / 2, x % 2, k / 2 FROM cell;
--: datafusion integers are divided as integers
SELECT -7 / 2, -7 % 2, 7 / -2, 7 % -2;
SELECT x / 2.0, x * 0.5, x + 1.25 FROM cell;
SELECT f + 1, f * 2, f / 4, -f, f - x FROM cell;
SELECT f32 + 1, f32 * 2, f32 / 4 FROM cell;
SELECT x + f, k + f32 FROM cell;
--: error [Dd]ivide by zero
SELECT x / 0 FROM cell;
--: error [Dd]ivide by zero
SELECT name FROM cell WHERE x / y > 1;
--: datafusion the quotient of integers
SELECT x / nullif(y, 0) FROM cell;
SELECT 1.0 / 0.0, -1.0 / 0.0;
SELECT x & 3, x | 8, x << 1, x >> 1 FROM cell;
SELECT x & -x, x | -x FROM cell;
SELECT k & -k, k | -k FROM cell;
SELECT name FROM cell WHERE x & 1 = 1;
SELECT name FROM cell WHERE x & 1 = 0 AND x | 1 = 3;
SELECT 2 + 3 * 4 AS a, (2 + 3) * 4 AS b, 2 - 3 - 4 AS c, 2 * 3 % 4 AS d;
--: datafusion DuckDB calls it sign
SELECT abs(x - 4), abs(f - 3), signum(x - 4) FROM cell;
SELECT ceil(f), floor(f), round(f), trunc(f) FROM cell;
SELECT round(f, 1), round(x * 1.55, 1), round(f * 100, -1) FROM cell;
SELECT round(2.5), round(-2.5), round(3.5), trunc(-2.7);
SELECT sqrt(x), cbrt(x), exp(y), ln(x), log10(x), log2(x) FROM cell;
SELECT power(x, 2), power(f, 0.5), pow(2, y) FROM cell;
SELECT sin(f), cos(f), tan(f), atan(f), atan2(f, 2), asin(f / 8), acos(f / 8) FROM cell;
SELECT sinh(f), cosh(f), tanh(f), degrees(f), radians(f), pi() FROM cell;
SELECT greatest(x, y), least(x, y), greatest(k, 3), least(k, y, 2) FROM cell;
SELECT gcd(x, 4), lcm(x, 4) FROM cell;
--: datafusion DuckDB's takes an INTEGER
SELECT factorial(y) FROM cell;
SELECT nullif(x, 2), nullif(k, 3), coalesce(k, -1), coalesce(k, f, x) FROM cell;
--: theirs SELECT coalesce(k, 0) FROM cell
SELECT ifnull(k, 0) FROM cell;
--: datafusion DuckDB has no nvl2
--: theirs SELECT coalesce(k, 0), coalesce(x, 0), nvl2(k, 1, 0) FROM cell
SELECT nvl(k, 0), nvl(x, 0), nvl2(k, 1, 0) FROM cell;
SELECT isnan(f), isnan(edge) FROM cell;
SELECT name FROM cell WHERE isnan(edge * 0);
SELECT CAST(x AS DOUBLE) AS a, CAST(x AS VARCHAR) AS b, CAST(k AS INT) AS c, CAST(b AS INT) AS d FROM cell;
--: error unique expression names
SELECT CAST(x AS DOUBLE), CAST(x AS VARCHAR) FROM cell;
SELECT x::DOUBLE / 2, x::TEXT || '!', f::REAL FROM cell;
--: datafusion a cast of a float cuts, and does not round
SELECT CAST(f AS INT), CAST(2.5 AS INT), CAST(-2.5 AS BIGINT) FROM cell;
SELECT CAST('12' AS INT), CAST('1.5' AS DOUBLE), CAST('true' AS BOOLEAN);
SELECT TRY_CAST('a' AS INT), TRY_CAST('7' AS INT), TRY_CAST(s AS INT) FROM cell;
--: error Cannot cast|cast
SELECT CAST(s AS INT) FROM cell;
SELECT CAST(x AS DECIMAL(10, 2)), CAST(f AS DECIMAL(10, 1)) FROM cell;
SELECT CAST(x AS SMALLINT) + 1, CAST(y AS TINYINT) FROM cell;
SELECT x > 2.5, x = 2.0, f = 3, f > k FROM cell;
SELECT x BETWEEN 1.5 AND 3.5, f BETWEEN 1 AND k FROM cell;
SELECT x IN (1, 2.0), f IN (1, 2.5) FROM cell;
SELECT x = '2', x > '3' FROM cell;
SELECT 1e3, 1.5e-2, 0.1 + 0.2, 123456789012 * 10;
SELECT 9223372036854775807, -9223372036854775808;
SELECT name FROM cell WHERE power(x, 2) > 20;
SELECT name FROM cell WHERE sqrt(f) > 1.5 AND round(f) = 3;
SELECT name FROM cell WHERE greatest(x, k) = 5;
SELECT sum(power(x, 2)), avg(sqrt(x)), max(abs(f - 3)) FROM cell;
SELECT random() >= 0 FROM cell WHERE random() < 1;
SELECT edge, edge * 2, edge > 0, edge = edge FROM cell;
SELECT edge + 1, -edge, abs(edge) FROM cell;
SELECT max(edge), min(edge), count(edge) FROM cell;
--: datafusion a NaN that is computed is larger than any number in both, but equal to NULL in neither
SELECT name, edge - edge AS d FROM cell WHERE edge - edge > 1;
SELECT edge, count(*) FROM cell WHERE edge > 0 GROUP BY edge;
SELECT CASE WHEN f > 2 THEN x ELSE k END FROM cell;
SELECT CASE WHEN f > 2 THEN 1 ELSE 0.5 END FROM cell;
SELECT CASE WHEN b THEN NULL ELSE x END FROM cell;
SELECT CASE WHEN y > 0 THEN x / y ELSE 0 END >= 0 FROM cell;
SELECT coalesce(NULL, NULL, x) FROM cell;
SELECT NULL + 1, NULL = NULL, NULL IS NULL, NOT NULL;
SELECT avg(x), avg(k), sum(f32) / count(f32) FROM cell;
SELECT f IS DISTINCT FROM 0.5, k IS NOT DISTINCT FROM NULL FROM cell;
SELECT b AND maybe, b OR maybe, NOT maybe, b = maybe FROM cell;
SELECT (x > 2) = b, (x > 2) AND NOT b, (k > 2) OR maybe FROM cell;
SELECT maybe IS TRUE, maybe IS NOT FALSE, maybe IS UNKNOWN FROM cell;
-- The engine takes ^ for the exclusive or of bits.
--: datafusion it is a power elsewhere
SELECT x ^ 2 FROM cell;
SELECT to_hex(x) FROM cell;
--: datafusion it is a function of DataFusion
SELECT arrow_typeof(x), arrow_typeof(f32), arrow_typeof(b), arrow_typeof(k) FROM cell LIMIT 1;
