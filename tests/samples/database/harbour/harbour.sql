-- A small harbour, invented.
PRAGMA foreign_keys = OFF;
BEGIN TRANSACTION;
CREATE TABLE ship (
  ship_id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  flag TEXT NOT NULL,
  length_m REAL
);
INSERT INTO ship VALUES (1, 'Amber', 'NO', 82.5), (2, 'Brisk', 'IT', 120.0), (3, 'Calla', 'IT', 95.4),
  (4, 'Dune', 'PT', 61.0), (5, 'Ember', 'NO', NULL);
CREATE TABLE visit (
  visit_id INTEGER PRIMARY KEY,
  ship_id INTEGER NOT NULL REFERENCES ship (ship_id),
  arrived TEXT NOT NULL,
  days INTEGER NOT NULL,
  fee REAL NOT NULL
);
INSERT INTO visit VALUES (1, 1, '2025-01-04', 2, 310.5), (2, 2, '2025-01-19', 5, 1220.0),
  (3, 1, '2025-02-02', 1, 155.25), (4, 3, '2025-02-11', 3, 640.0), (5, 2, '2025-03-08', 2, 488.0),
  (6, 4, '2025-03-08', 4, 212.0);
COMMIT;
