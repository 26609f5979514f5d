-- Holders and waiters say on whose behalf.
ALTER TABLE holders ADD COLUMN actor TEXT;
ALTER TABLE waiters ADD COLUMN actor TEXT;
