-- Compare and delete. KEYS: 1 lock. ARGV: 1 owner. Replies: 1 it was the owner's, 0 it was not.
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
