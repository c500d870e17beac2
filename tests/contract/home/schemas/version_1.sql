-- A store as the tables of version 1 left it. Made by the steps of storage/migrations.py up to it. Never edited.
PRAGMA application_id = 1094930497;
PRAGMA user_version = 1;
CREATE TABLE events (
            session INTEGER NOT NULL REFERENCES sessions (id),
            seq INTEGER NOT NULL,
            at INTEGER NOT NULL,
            kind TEXT NOT NULL,
            data TEXT NOT NULL,
            UNIQUE (session, seq)
        ) STRICT
        ;
INSERT INTO "events" VALUES(1,1,1700000000001,'session_started','{"cwd": "/home/user/project", "additional_directories": [], "mode": "ask", "model": "", "thought_level": "", "kind": "session_started"}');
INSERT INTO "events" VALUES(1,2,1700000000002,'instructions_loaded','{"text": "You are careful.", "sources": [], "kind": "instructions_loaded"}');
INSERT INTO "events" VALUES(1,3,1700000000003,'user_prompted','{"message_id": "msg_1", "shown": [{"text": "Mend the cart of version 1.", "type": "text"}], "sent": null, "kind": "user_prompted"}');
INSERT INTO "events" VALUES(1,4,1700000000004,'title_changed','{"title": "A cart of version 1", "kind": "title_changed"}');
INSERT INTO "events" VALUES(1,5,1700000000005,'partial_answer','{"message_id": "msg_2", "text": "I look", "thinking": "", "kind": "partial_answer"}');
INSERT INTO "events" VALUES(1,6,1700000000006,'assistant_answered','{"message": {"id": "msg_2", "parts": [{"text": "I look.", "type": "text"}, {"id": "call_1", "name": "read", "arguments": {"path": "shop/cart.py"}, "invalid": null, "type": "tool_call"}], "model": "openai/gpt-test", "stop_reason": "tool_use", "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_tokens": 0, "cache_write_tokens": 0, "cost": null}, "role": "assistant"}, "kind": "assistant_answered"}');
INSERT INTO "events" VALUES(1,7,1700000000007,'tool_returned','{"result": {"call_id": "call_1", "parts": [{"text": "class Cart:", "type": "text"}], "is_error": false, "role": "tool"}, "view": {"title": "Read cart.py", "kind": "read", "locations": [{"path": "/home/user/project/shop/cart.py", "line": 1}], "diffs": [], "raw_output": null}, "files": [{"path": "/home/user/project/shop/cart.py", "digest": "9f86d0"}], "kind": "tool_returned"}');
INSERT INTO "events" VALUES(1,8,1700000000008,'assistant_answered','{"message": {"id": "msg_3", "parts": [{"text": "Row 0 of the old answer in version 1.\nRow 1 of the old answer in version 1.\nRow 2 of the old answer in version 1.\nRow 3 of the old answer in version 1.\nRow 4 of the old answer in version 1.\nRow 5 of the old answer in version 1.\nRow 6 of the old answer in version 1.\nRow 7 of the old answer in version 1.\nRow 8 of the old answer in version 1.\nRow 9 of the old answer in version 1.\nRow 10 of the old answer in version 1.\nRow 11 of the old answer in version 1.\nRow 12 of the old answer in version 1.\nRow 13 of the old answer in version 1.\nRow 14 of the old answer in version 1.\nRow 15 of the old answer in version 1.\nRow 16 of the old answer in version 1.\nRow 17 of the old answer in version 1.\nRow 18 of the old answer in version 1.\nRow 19 of the old answer in version 1.\nRow 20 of the old answer in version 1.\nRow 21 of the old answer in version 1.\nRow 22 of the old answer in version 1.\nRow 23 of the old answer in version 1.\nRow 24 of the old answer in version 1.\nRow 25 of the old answer in version 1.\nRow 26 of the old answer in version 1.\nRow 27 of the old answer in version 1.\nRow 28 of the old answer in version 1.\nRow 29 of the old answer in version 1.\nRow 30 of the old answer in version 1.\nRow 31 of the old answer in version 1.\nRow 32 of the old answer in version 1.\nRow 33 of the old answer in version 1.\nRow 34 of the old answer in version 1.\nRow 35 of the old answer in version 1.\nRow 36 of the old answer in version 1.\nRow 37 of the old answer in version 1.\nRow 38 of the old answer in version 1.\nRow 39 of the old answer in version 1.\nRow 40 of the old answer in version 1.\nRow 41 of the old answer in version 1.\nRow 42 of the old answer in version 1.\nRow 43 of the old answer in version 1.\nRow 44 of the old answer in version 1.\nRow 45 of the old answer in version 1.\nRow 46 of the old answer in version 1.\nRow 47 of the old answer in version 1.\nRow 48 of the old answer in version 1.\nRow 49 of the old answer in version 1.\nRow 50 of the old answer in version 1.\nRow 51 of the old answer in version 1.\nRow 52 of the old answer in version 1.\nRow 53 of the old answer in version 1.\nRow 54 of the old answer in version 1.\nRow 55 of the old answer in version 1.\nRow 56 of the old answer in version 1.\nRow 57 of the old answer in version 1.\nRow 58 of the old answer in version 1.\nRow 59 of the old answer in version 1.", "type": "text"}], "model": "openai/gpt-test", "stop_reason": "end_turn", "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_tokens": 0, "cache_write_tokens": 0, "cost": null}, "role": "assistant"}, "kind": "assistant_answered"}');
INSERT INTO "events" VALUES(1,9,1700000000009,'turn_ended','{"stop_reason": "end_turn", "error": null, "kind": "turn_ended"}');
INSERT INTO "events" VALUES(1,10,1700000000010,'context_swapped','{"compaction_id": "cmp_1", "message_id": "msg_5", "trigger": "manual", "summary": "The cart of version 1 was read.", "sent": [{"text": "What happened so far: The cart of version 1 was read.", "type": "text"}], "keep_from": 10, "carried": {"cwd": "/home/user/project", "additional_directories": [], "mode": "ask", "model": "", "thought_level": "", "instructions": "You are careful.", "title": "A cart of version 1", "plan": [], "grants": [], "cost": 0.0, "turn_from": null}, "tokens_before": 2000, "tokens_after": 300, "pinned": [], "usage": null, "recipe": "compact", "digest": "e3b0c4", "kind": "context_swapped"}');
INSERT INTO "events" VALUES(1,11,1700000000011,'user_prompted','{"message_id": "msg_6", "shown": [{"text": "And the tax?", "type": "text"}], "sent": null, "kind": "user_prompted"}');
INSERT INTO "events" VALUES(1,12,1700000000012,'assistant_answered','{"message": {"id": "msg_7", "parts": [{"text": "The tax is next.", "type": "text"}], "model": "openai/gpt-test", "stop_reason": "end_turn", "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_tokens": 0, "cache_write_tokens": 0, "cost": null}, "role": "assistant"}, "kind": "assistant_answered"}');
INSERT INTO "events" VALUES(1,13,1700000000013,'turn_ended','{"stop_reason": "end_turn", "error": null, "kind": "turn_ended"}');
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
        ) STRICT
        ;
INSERT INTO "sessions" VALUES(1,'sess_11111111111111111111111111111111','/home/user/project','[]','A cart of version 1',1700000000000,1700000001000,13,10,NULL);
INSERT INTO "sessions" VALUES(2,'sess_eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee','','[]',NULL,1700000000000,1700000001000,3,1,1700000000000);
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
