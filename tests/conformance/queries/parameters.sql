-- Parameters: by name, by place, lists, of every type.

--: with {"least": 3}
--: theirs SELECT name FROM cell WHERE x > 3
SELECT name FROM cell WHERE x > $least;
--: with [3]
--: theirs SELECT name FROM cell WHERE x > 3
SELECT name FROM cell WHERE x > ?;
--: with [3, true]
--: theirs SELECT name FROM cell WHERE x > 3 AND b = true
SELECT name FROM cell WHERE x > $1 AND b = $2;
--: with [true, 3]
--: theirs SELECT name FROM cell WHERE x > 3 AND b = true
SELECT name FROM cell WHERE x > $2 AND b = $1;
--: with {"d": "N1"}
--: theirs SELECT name FROM cell WHERE donor = 'N1'
SELECT name FROM cell WHERE donor = $d;
--: with {"d": null}
--: theirs SELECT name FROM cell WHERE donor = NULL
SELECT name FROM cell WHERE donor = $d;
--: with {"d": ["N1", "n3"]}
--: theirs SELECT name FROM cell WHERE donor IN ('N1', 'n3')
SELECT name FROM cell WHERE donor IN $d;
--: with {"d": ["N1", null]}
--: theirs SELECT name FROM cell WHERE donor NOT IN ('N1', NULL)
SELECT name FROM cell WHERE donor NOT IN $d;
--: with [[1, 2, 8]]
--: theirs SELECT name FROM cell WHERE x IN (1, 2, 8)
SELECT name FROM cell WHERE x IN ?;
--: with [[1, 2, 8]]
--: theirs SELECT name FROM cell WHERE x IN (1, 2, 8)
SELECT name FROM cell WHERE x IN (?);
--: with [[]]
--: theirs SELECT name FROM cell WHERE false
SELECT name FROM cell WHERE x IN ?;
--: with [[]]
--: theirs SELECT name FROM cell
SELECT name FROM cell WHERE x NOT IN ?;
--: with {"k": [1, null]}
--: theirs SELECT name FROM cell WHERE k IN (1, NULL) OR b
SELECT name FROM cell WHERE k IN $k OR b;
--: with {"k": [0.5, 3]}
--: theirs SELECT name FROM cell WHERE f IN (0.5, 3)
SELECT name FROM cell WHERE f IN $k;
--: with {"s": "it's"}
--: theirs SELECT name FROM cell WHERE marker = 'it''s'
SELECT name FROM cell WHERE marker = $s;
--: with {"s": "$x ? --"}
--: theirs SELECT '$x ? --' AS t, '$s ?' AS u FROM cell
SELECT $s AS t, '$s ?' AS u FROM cell;
--: with {"n": 3, "f": 1.5, "b": true, "s": "a", "z": null}
--: theirs SELECT 3 AS n, 1.5::DOUBLE AS f, true AS b, 'a' AS s, NULL AS z
SELECT $n AS n, $f AS f, $b AS b, $s AS s, $z AS z;
--: with {"n": 2}
--: theirs SELECT x + 2 AS y, x * 2 AS z FROM cell
SELECT x + $n AS y, x * $n AS z FROM cell;
--: with {"n": 2}
--: theirs SELECT x - -2 AS y FROM cell
SELECT x - -$n AS y FROM cell;
--: with {"p": "a%"}
--: theirs SELECT name FROM cell WHERE s LIKE 'a%'
SELECT name FROM cell WHERE s LIKE $p;
--: with {"lo": 2, "hi": 5}
--: theirs SELECT name FROM cell WHERE x BETWEEN 2 AND 5
SELECT name FROM cell WHERE x BETWEEN $lo AND $hi;
--: ordered
--: with {"n": 3, "o": 2}
--: theirs SELECT name FROM cell ORDER BY name LIMIT 3 OFFSET 2
SELECT name FROM cell ORDER BY name LIMIT $n OFFSET $o;
--: with {"n": 3}
--: theirs SELECT x, count(*) FROM cell GROUP BY x HAVING count(*) > 3
SELECT x, count(*) FROM cell GROUP BY x HAVING count(*) > $n;
--: with {"n": 3}
--: theirs SELECT name FROM cell WHERE x IN (SELECT x FROM gene WHERE x > 3)
SELECT name FROM cell WHERE x IN (SELECT x FROM gene WHERE x > $n);
--: with {"n": 3}
--: theirs SELECT c.name FROM cell c JOIN gene g ON c.x = g.x AND g.x > 3
SELECT c.name FROM cell c JOIN gene g ON c.x = g.x AND g.x > $n;
--: with {"n": 2}
--: theirs SELECT CASE WHEN x > 2 THEN 2 ELSE x END AS z FROM cell
SELECT CASE WHEN x > $n THEN $n ELSE x END AS z FROM cell;
--: with {"a": [1, 2], "b": [2, 3]}
--: theirs SELECT name FROM cell WHERE x IN (1, 2) AND x IN (2, 3)
SELECT name FROM cell WHERE x IN $a AND x IN $b;
--: with {"day": "2024-01-10"}
--: theirs SELECT name FROM cell WHERE day >= '2024-01-10'
--: not h5ad
SELECT name FROM cell WHERE day >= $day;
--: with {"x": 1}
--: error no value|missing|least
SELECT name FROM cell WHERE x > $least;
--: error parameter|value
SELECT name FROM cell WHERE x > $least;
