-- A database as the fifth version of the tables left it, with a session that was searched and one in which nothing was said. Never edited.
PRAGMA application_id = 1094930497;
PRAGMA user_version = 5;
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL UNIQUE,
    cwd TEXT NOT NULL,
    additional_directories TEXT NOT NULL,
    title TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    head INTEGER NOT NULL,
    context_from INTEGER NOT NULL,
    deleted_at INTEGER
    , indexed INTEGER NOT NULL DEFAULT 0, archived_at INTEGER) STRICT;
CREATE TABLE events (
    session INTEGER NOT NULL REFERENCES sessions (id),
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    UNIQUE (session, seq)
) STRICT;
INSERT INTO sessions VALUES (1, 's1', '/shop', '["/lib"]', 'The cart', 1700000000000, 1700000002000, 3, 2, NULL, 2, NULL);
INSERT INTO sessions VALUES (2, 's2', '', '[]', NULL, 1700000000500, 1700000000500, 7, 1, 1700000003000, 0, NULL);
INSERT INTO events VALUES (1, 1, 1700000000000, 'session_started', '{"cwd":"/shop","additional_directories":["/lib"],"mode":"ask","model":"","thought_level":"","kind":"session_started"}');
INSERT INTO events VALUES (1, 2, 1700000001000, 'user_prompted', '{"message_id":"msg_1","shown":[{"text":"grün","type":"text"}],"sent":null,"kind":"user_prompted"}');
INSERT INTO events VALUES (1, 3, 1700000002000, 'title_changed', '{"title":"The cart","kind":"title_changed"}');
INSERT INTO sessions VALUES (3, 's4', '/shop', '[]', NULL, 1700000004000, 1700000004000, 1, 1, NULL, 0, NULL);
INSERT INTO events VALUES (3, 1, 1700000004000, 'session_started', '{"cwd":"/shop","additional_directories":[],"mode":"ask","model":"","thought_level":"","kind":"session_started"}');
CREATE TRIGGER events_are_appended BEFORE INSERT ON events
WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM events WHERE session = NEW.session)
    OR (SELECT deleted_at FROM sessions WHERE id = NEW.session) IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'an event is only ever appended to the end of a log'); END;
CREATE TRIGGER events_are_final BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'an event is never changed'); END;
CREATE TRIGGER events_go_with_their_session BEFORE DELETE ON events
WHEN (SELECT deleted_at FROM sessions WHERE id = OLD.session) IS NULL
BEGIN SELECT RAISE(ABORT, 'an event is never removed but with its whole session'); END;
CREATE TRIGGER deleted_sessions_stay_deleted BEFORE UPDATE ON sessions
WHEN OLD.deleted_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'a deleted session is never revived'); END;
CREATE TRIGGER sessions_leave_their_id BEFORE DELETE ON sessions
BEGIN SELECT RAISE(ABORT, 'the id of a session is never given away again'); END;
CREATE INDEX sessions_by_time ON sessions (updated_at DESC, session_id) WHERE deleted_at IS NULL;
CREATE INDEX sessions_by_place ON sessions (cwd, updated_at DESC, session_id) WHERE deleted_at IS NULL;
CREATE TABLE blobs (sha256 TEXT PRIMARY KEY, data BLOB NOT NULL) STRICT;
CREATE TABLE blob_uses (
    session INTEGER NOT NULL REFERENCES sessions (id),
    sha256 TEXT NOT NULL REFERENCES blobs (sha256),
    PRIMARY KEY (session, sha256)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_uses_of ON blob_uses (sha256);
CREATE TRIGGER events_use_blobs AFTER INSERT ON events WHEN instr(NEW.data, '"sha256"')
BEGIN
    INSERT OR IGNORE INTO blob_uses
    SELECT NEW.session, blobs.sha256 FROM json_tree(NEW.data) AS node JOIN blobs ON blobs.sha256 = node.value
    WHERE node.key = 'sha256' AND node.type = 'text';
END;
CREATE TRIGGER blobs_are_final BEFORE UPDATE ON blobs
BEGIN SELECT RAISE(ABORT, 'a blob is named by what it is'); END;
CREATE TRIGGER blobs_go_with_their_last_session AFTER DELETE ON blob_uses
WHEN NOT EXISTS (SELECT 1 FROM blob_uses WHERE sha256 = OLD.sha256)
BEGIN DELETE FROM blobs WHERE sha256 = OLD.sha256; END;
ALTER TABLE sessions ADD COLUMN begun INTEGER NOT NULL DEFAULT 0;
UPDATE sessions SET begun = 1 WHERE session_id = 's1';
CREATE TRIGGER sessions_begin AFTER INSERT ON events
WHEN NEW.kind IN ('user_prompted', 'title_changed', 'session_forked')
BEGIN UPDATE sessions SET begun = 1 WHERE id = NEW.session AND NOT begun; END;
CREATE VIRTUAL TABLE message_index USING fts5 (text, content = '', tokenize = 'unicode61 remove_diacritics 2');
INSERT INTO message_index (rowid, text) VALUES (4294967298, 'grün');
