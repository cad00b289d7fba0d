-- Questions about a harbour, as they are written in an editor.

-- H1: Which ships fly the Italian flag?
--   db: harbour
--   difficulty: easy
--   reviewed: 2026-02-03, against the ships' register
--   version: 2
SELECT name FROM ship WHERE flag = 'IT';

-- H2: Which three visits brought the highest fees?
--   db: harbour
--   difficulty: medium
--   trap: a tie that LIMIT cuts, and fees a day instead of fees
--   order: by fee desc
--   decimals: 2
--   optional: fee
SELECT visit_id, fee FROM visit ORDER BY fee DESC LIMIT 3;

-- H2 trap fee a day: ranks by the fee a day
SELECT visit_id, fee / days FROM visit ORDER BY fee / days DESC LIMIT 3;

-- H3: How many ships called since the given day?
--   db: harbour
--   param: since = 2025-01-01
--   question.it: Quante navi sono arrivate dal giorno indicato?
SELECT COUNT(DISTINCT ship_id) AS ships FROM visit WHERE arrived >= :since;

-- H3 trap visits: counts visits, not ships
SELECT COUNT(*) FROM visit WHERE arrived >= :since;

-- H4: Which ship is the longest?
--   db: harbour
SELECT name FROM ship ORDER BY length_m DESC LIMIT 1;

-- H4 or: the name together with the length is as good
SELECT name, length_m FROM ship ORDER BY length_m DESC LIMIT 1;

-- H5: What was earned in each month?
--   db: harbour
--   rows: months.csv
