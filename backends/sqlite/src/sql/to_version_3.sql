-- Holders can be asked to let go.
ALTER TABLE holders ADD COLUMN ask_number INTEGER;
ALTER TABLE holders ADD COLUMN ask_by TEXT;
ALTER TABLE holders ADD COLUMN ask_note TEXT;
