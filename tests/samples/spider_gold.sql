SELECT count(*) FROM ship	harbour
SELECT name FROM ship WHERE length_m IS NOT NULL ORDER BY length_m DESC	harbour
SELECT flag, count(*) FROM ship GROUP BY flag	harbour

SELECT DISTINCT kind FROM tree	orchard
SELECT DISTINCT tree_id FROM picking WHERE kg > (SELECT avg(kg) FROM picking)	orchard
