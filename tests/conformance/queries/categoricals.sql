-- Categoricals: strings everywhere but with categoricals="dictionary", which sorts by category.

SELECT louvain, stage FROM cell;
SELECT name FROM cell WHERE louvain = 'T' AND stage = 'adult';
SELECT name FROM cell WHERE louvain < 'N';
SELECT name FROM cell WHERE stage LIKE '%d%';
SELECT name FROM cell WHERE upper(stage) = 'ADULT';
SELECT name FROM cell WHERE stage IS NULL OR louvain NOT IN ('T', 'B');
SELECT name FROM cell WHERE louvain = stage OR louvain > stage;
SELECT name FROM cell WHERE louvain = 'nothing';
SELECT DISTINCT louvain, stage FROM cell;
SELECT louvain, count(*) FROM cell GROUP BY louvain;
SELECT stage, count(*), count(stage), min(louvain), max(stage) FROM cell GROUP BY stage;
SELECT louvain, stage, sum(x) FROM cell GROUP BY louvain, stage;
SELECT louvain || '!' AS l, length(stage) AS n FROM cell;
SELECT coalesce(stage, 'none') AS s, count(*) FROM cell GROUP BY coalesce(stage, 'none');
SELECT CASE louvain WHEN 'T' THEN 1 ELSE 0 END AS t FROM cell;
SELECT a.name FROM cell a JOIN cell b ON a.louvain = b.louvain AND a.name <> b.name;
SELECT name FROM cell WHERE louvain IN (SELECT louvain FROM cell WHERE x = 8);
SELECT louvain FROM cell UNION SELECT stage FROM cell;
SELECT louvain FROM cell UNION SELECT name FROM gene;
SELECT count(DISTINCT louvain), count(DISTINCT stage), min(louvain), max(louvain) FROM cell;
SELECT name, rank() OVER (PARTITION BY louvain ORDER BY x DESC) AS r FROM cell;
SELECT louvain, stage FROM cell WHERE false;
SELECT array_agg(louvain ORDER BY name) FROM cell WHERE x = 1;
SELECT string_agg(louvain, ',' ORDER BY name) FROM cell WHERE x = 1;

-- As strings, by the alphabet.
--: not dictionary
--: ordered
SELECT louvain, name FROM cell ORDER BY louvain, name;
--: not dictionary
--: ordered
SELECT stage, count(*) FROM cell GROUP BY stage ORDER BY stage NULLS FIRST;

-- As dictionaries, by category.
--: only dictionary
--: ordered
--: theirs SELECT name FROM cell ORDER BY CASE louvain WHEN 'T' THEN 0 WHEN 'NK' THEN 1 WHEN 'Mono' THEN 2 ELSE 3 END, name
SELECT name FROM cell ORDER BY louvain, name;
--: only dictionary
--: ordered
--: theirs SELECT name FROM cell ORDER BY CASE louvain WHEN 'T' THEN 0 WHEN 'NK' THEN 1 WHEN 'Mono' THEN 2 ELSE 3 END DESC, name
SELECT name FROM cell ORDER BY louvain DESC, name;
--: only dictionary
--: ordered
--: theirs SELECT stage, name FROM cell ORDER BY CASE stage WHEN 'embryo' THEN 0 WHEN 'child' THEN 1 WHEN 'adult' THEN 2 END NULLS LAST, name
SELECT stage, name FROM cell ORDER BY stage NULLS LAST, name;
--: only dictionary
--: ordered
--: theirs SELECT stage, name FROM cell ORDER BY CASE stage WHEN 'embryo' THEN 0 WHEN 'child' THEN 1 WHEN 'adult' THEN 2 END NULLS FIRST, name
SELECT stage, name FROM cell ORDER BY stage NULLS FIRST, name;
--: only dictionary
--: ordered
--: rows [["T", 6], ["NK", 6], ["Mono", 6], ["B", 6]]
SELECT louvain, count(*) FROM cell GROUP BY louvain ORDER BY louvain;
--: only dictionary
--: ordered
--: rows [["T"], ["NK"], ["Mono"], ["B"]]
SELECT l FROM (SELECT louvain AS l, count(*) AS n FROM cell GROUP BY louvain) ORDER BY l;
--: only dictionary
--: ordered
--: rows [["B", 6], ["Mono", 6], ["NK", 6], ["T", 6]]
SELECT c.louvain, count(*) FROM cell c GROUP BY c.louvain ORDER BY c.louvain DESC;
--: only dictionary
--: rows [[["T", "NK", "Mono", "B"]]]
SELECT array_agg(l ORDER BY l) FROM (SELECT louvain AS l FROM cell GROUP BY louvain);
--: only dictionary
--: ordered
--: rows [["T"], ["NK"], ["Mono"], ["B"]]
WITH t AS (SELECT DISTINCT louvain FROM cell) SELECT louvain FROM t ORDER BY louvain;
--: only dictionary
--: ordered
--: rows [["T", 6], ["NK", 6], ["Mono", 6], ["B", 6]]
SELECT louvain, count(*) FROM cell GROUP BY louvain ORDER BY 1;
--: only dictionary
--: ordered
--: rows [["T", 6], ["NK", 6], ["Mono", 6], ["B", 6]]
SELECT louvain, count(*) FROM cell GROUP BY louvain ORDER BY (louvain);
--: only dictionary
--: ordered
--: rows [["T", 6], ["NK", 6], ["Mono", 6], ["B", 6]]
SELECT louvain AS l, count(*) FROM cell GROUP BY louvain ORDER BY l;
--: not own, collection
--: ordered
--: rows [["T", 6], ["NK", 6], ["Mono", 6], ["B", 6]]
SELECT louvain, count(*) FROM cell GROUP BY louvain ORDER BY category_order('cell.louvain', louvain);
--: only dictionary
SELECT name FROM cell WHERE stage <> 'child' AND stage IN ('child', 'adult') OR stage BETWEEN 'a' AND 'c';
--: only dictionary
SELECT name FROM cell WHERE stage = 'child' OR stage IS NOT NULL AND stage > 'b' AND louvain = 'T';
--: only dictionary
SELECT name FROM cell WHERE upper(stage) = 'CHILD' OR stage LIKE 'a%' OR louvain NOT IN ('T') AND stage = louvain;
--: only directory, archive, hdf5, h5ad, dictionary
--: ordered
--: rows [["adult", 6], ["child", 6], ["embryo", 6], [null, 6]]
SELECT stage, count(*) FROM cell GROUP BY stage ORDER BY category_order('data.cell.stage', stage) DESC NULLS LAST;

-- Sorted as strings: the name is that of something else, or DISTINCT forbids another key.
--: only dictionary
--: ordered
SELECT DISTINCT louvain FROM cell ORDER BY louvain;
--: only dictionary
--: ordered
SELECT DISTINCT louvain AS l FROM cell ORDER BY l DESC;
--: only dictionary
--: ordered
SELECT DISTINCT louvain FROM cell ORDER BY 1;
--: only dictionary
--: ordered
WITH o (m, louvain) AS (SELECT x, s FROM cell) SELECT louvain, m FROM o ORDER BY louvain, m;
--: only dictionary
--: ordered
SELECT louvain FROM (SELECT x, s FROM cell) AS o (m, louvain) ORDER BY louvain;
--: only dictionary
--: ordered
SELECT upper(louvain) AS louvain FROM cell ORDER BY louvain;

-- Views have the categories of their columns; a name that a view gives to something else is sorted as strings.
CREATE VIEW late AS SELECT louvain, name, louvain AS l FROM cell WHERE x > 3;
CREATE VIEW later AS SELECT * FROM late;
CREATE VIEW other AS SELECT upper(louvain) AS louvain, name FROM late;
--: only dictionary
--: ordered
--: theirs SELECT name FROM late ORDER BY CASE louvain WHEN 'T' THEN 0 WHEN 'NK' THEN 1 WHEN 'Mono' THEN 2 ELSE 3 END, name
SELECT name FROM late ORDER BY louvain, name;
--: only dictionary
--: ordered
--: theirs SELECT l, name FROM later ORDER BY CASE louvain WHEN 'T' THEN 0 WHEN 'NK' THEN 1 WHEN 'Mono' THEN 2 ELSE 3 END, name
SELECT l, name FROM later ORDER BY l, name;
--: only dictionary
--: ordered
SELECT louvain, name FROM other ORDER BY louvain, name;
--: only dictionary
--: rows [["B"]]
SELECT mode(louvain) AS m FROM cell;
