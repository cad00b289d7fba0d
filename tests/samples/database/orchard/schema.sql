-- A small orchard, invented; a trigger's own semicolons end no statement.
CREATE TABLE tree (tree_id INTEGER PRIMARY KEY, kind TEXT NOT NULL, planted INTEGER NOT NULL);
CREATE TABLE picking (
  tree_id INTEGER NOT NULL REFERENCES tree (tree_id),
  day TEXT NOT NULL,
  kg REAL NOT NULL,
  note TEXT
);
CREATE TABLE log (entry TEXT);
CREATE TRIGGER kept AFTER INSERT ON picking BEGIN
  INSERT INTO log VALUES ('picked; ' || NEW.day);
END;
INSERT INTO tree VALUES (1, 'apple', 2009), (2, 'pear', 2012), (3, 'apple', 2015), (4, 'plum', 2015);
INSERT INTO picking VALUES (1, '2025-09-01', 42.5, NULL);
INSERT INTO picking VALUES (1, '2025-09-08', 38.0, 'wind; -- and rain');
INSERT INTO picking VALUES (2, '2025-09-01', 20.25, NULL);
INSERT INTO picking VALUES (3, '2025-09-15', 51.0, NULL);
INSERT INTO picking VALUES (4, '2025-08-20', 17.75, 'small');
