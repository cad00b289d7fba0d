-- H1: Which ships fly the Italian flag?
SELECT name FROM ship WHERE flag = 'IT' ORDER BY name;

-- H2: Which three visits brought the highest fees?
SELECT visit_id FROM visit ORDER BY fee DESC LIMIT 3;

-- H3: How many ships called since the given day?
SELECT COUNT(*) FROM visit WHERE arrived >= :since;

-- H4: Which ship is the longest?
SELECT name, length_m FROM ship WHERE length_m = (SELECT MAX(length_m) FROM ship);

-- H5: What was earned in each month?
SELECT SUBSTR(arrived, 1, 7) AS month, SUM(fee) AS earned FROM visit GROUP BY month;
