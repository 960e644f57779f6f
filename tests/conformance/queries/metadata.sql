-- What a data set says of itself: tables, columns, scalars, matrices, relations; plans.

--: not own, collection
--: rows [["cell"], ["gene"]]
SELECT DISTINCT table_name FROM information_schema.columns WHERE table_name IN ('cell', 'gene');
--: not own, collection, h5ad, dictionary
--: ordered
--: rows [["name", "Utf8"], ["index", "Int64"], ["chrom", "Utf8"], ["is_marker", "Boolean"], ["k", "Int64"], ["x", "Int64"]]
SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'gene' ORDER BY ordinal_position;
--: not own, collection, h5ad
--: rows [["UInt8", "Int8", "UInt32", "Float32", "UInt64", "Boolean"]]
SELECT arrow_typeof(u8), arrow_typeof(i8), arrow_typeof(u), arrow_typeof(f32), arrow_typeof(huge), arrow_typeof(b) FROM cell LIMIT 1;
--: not own, collection
--: rows [["X"], ["counts"]]
SELECT name FROM matrices;
--: not own, collection
--: rows [["X", "Float32"], ["counts", "UInt8"]]
SELECT name, type FROM matrices;
--: not own
--: rows [[0]]
SELECT count(*) FROM relations WHERE vector = 'nothing';
--: only collection
--: rows [["m1", 9], ["m2", 1], ["m3", 14]]
SELECT dataset, count(*) FROM cell GROUP BY dataset;
--: only collection
SELECT dataset, name FROM cell WHERE dataset <> 'm1' AND x > 2;
--: only collection
SELECT dataset, max("index"), sum(k) FROM cell GROUP BY dataset;
--: only collection
SELECT c.name, g.x FROM cell c JOIN gene g ON c.marker = g.name AND c.dataset = g.dataset;
--: only collection
SELECT c.dataset, g.dataset AS other, count(*) FROM cell c JOIN gene g ON c.x = g.x GROUP BY c.dataset, g.dataset;
--: only collection
SELECT name FROM cell WHERE dataset IN ('m2', 'm3') AND "index" = 0;
--: only collection
SELECT name FROM cell WHERE dataset LIKE 'm_' AND upper(dataset) = 'M2';
--: only collection
--: ordered
SELECT dataset, name FROM cell ORDER BY dataset DESC, name LIMIT 4;
--: only collection
--: rows [[0]]
SELECT count(*) FROM cell WHERE dataset = 'm4';
--: only collection
SELECT dataset || '/' || name AS full FROM cell;
--: only collection
SELECT DISTINCT dataset FROM gene;
--: only collection
SELECT name, rank() OVER (PARTITION BY dataset ORDER BY x DESC, name) AS r FROM cell;
