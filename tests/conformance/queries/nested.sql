-- Lists, structs, unnest, series: values that no column has, and queries make.
--: file only directory, collection, own

SELECT [x, y, k] AS l FROM cell;
--: datafusion it is a function of DataFusion
SELECT make_array(x, y) AS l, array_length(make_array(x, y, k)) AS n FROM cell;
SELECT [x, y][1] AS a, [x, y][2] AS b FROM cell;
SELECT l[1] - l[2] AS d FROM (SELECT [x, y] AS l FROM cell);
SELECT array_has([1, 2], x) AS found, array_position([5, 2], x) AS place FROM cell;
SELECT name FROM cell WHERE array_has([1, 2], x);
SELECT array_append([x], y) AS a, array_prepend(y, [x]) AS b, array_concat([x], [y]) AS c FROM cell;
SELECT array_sort(array_distinct([1, 1, 2])) AS d, array_sort([3, 1, 2]) AS s;
SELECT array_to_string([x, y], '-') AS t FROM cell;
SELECT array_slice([1, 2, 3, 4], 2, 3) AS s;
SELECT unnest([1, 2, 3]) AS n;
SELECT name, unnest([x, y]) AS n FROM cell;
SELECT n, count(*) FROM (SELECT unnest([x, y]) AS n FROM cell) GROUP BY n;
SELECT unnest(l) AS n FROM (SELECT array_agg(x ORDER BY name) AS l FROM cell WHERE b);
SELECT x, array_agg(k ORDER BY name) AS ks FROM cell GROUP BY x;
SELECT array_length(array_agg(name)) AS n FROM cell;
SELECT array_agg([x, y] ORDER BY name) AS l FROM cell WHERE x = 1;
--: datafusion DuckDB's struct has other names
SELECT named_struct('a', x, 'b', name) AS s FROM cell;
--: datafusion DuckDB has no named_struct
SELECT t['a'] AS a FROM (SELECT named_struct('a', x, 'b', name) AS t FROM cell) WHERE t['a'] > 2;
--: datafusion DuckDB has no named_struct
SELECT s.a FROM (SELECT named_struct('a', x) AS s FROM cell) AS t;
SELECT map(['k'], [x])['k'] AS v FROM cell;
--: datafusion DuckDB calls the column otherwise
SELECT value FROM generate_series(1, 5);
--: datafusion DuckDB calls the column otherwise
SELECT c.name, v.value FROM cell c JOIN generate_series(1, 3) v ON c.x = v.value;
SELECT count(*) FROM range(1, 5);
SELECT range(1, 4) AS r, generate_series(1, 3) AS g;
SELECT x IN (SELECT unnest([1, 2])) IS NULL FROM cell LIMIT 0;
SELECT name FROM cell WHERE x IN (SELECT unnest([1, 2]));
SELECT [1, 2] = [1, 2] AS same, [1] < [2] AS less;
SELECT DISTINCT [x % 2, y % 2] AS l FROM cell;
SELECT count(DISTINCT [x, y]) FROM cell;
SELECT flatten([[1, 2], [3]]) AS f;
--: datafusion they are functions of DataFusion
SELECT array_max([x, y]) AS m, array_min([x, y]) AS n FROM cell;
SELECT cardinality([x, y]) AS n FROM cell;
--: datafusion it is a function of DataFusion
SELECT empty([x]) AS e FROM cell;
SELECT list_sort(array_agg(DISTINCT donor)) FROM cell WHERE donor IS NOT NULL;
--: ordered
SELECT [x, y] AS l FROM cell ORDER BY [x, y], name;

-- The WHERE of an aggregate of all rows ends in a list, or in a subquery.
SELECT v FROM (SELECT max(x) AS v FROM cell WHERE x NOT IN (2, 8)) AS t WHERE v IN (1, 7);
SELECT n FROM (SELECT count(*) AS n FROM cell WHERE x = (SELECT max(x) FROM cell)) AS t;
--: duckdb the engine takes the column of the subquery for that of the query around it
SELECT n FROM (SELECT count(*) AS n FROM cell WHERE x >= ALL (SELECT x FROM cell)) AS t;
SELECT v FROM (SELECT max(x) - row_number() OVER (ORDER BY max(x)) AS v FROM cell) AS t;
