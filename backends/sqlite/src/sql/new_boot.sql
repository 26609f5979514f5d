-- The machine was started anew: every process that held or waited is gone. Last tokens stay.
DELETE FROM holders;
DELETE FROM waiters;
DELETE FROM revoked;
