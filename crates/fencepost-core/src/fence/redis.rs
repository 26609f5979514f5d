//! The check in Redis: one script that checks and writes.

use crate::token::FencingToken;

/// A script and its words, as `EVAL` takes them: text, number of keys, keys, arguments. It answers the newest token seen,
/// as text of digits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RedisScript {
    /// The script.
    pub text: &'static str,
    /// Its keys.
    pub keys: Vec<String>,
    /// Its arguments.
    pub arguments: Vec<Vec<u8>>,
}

/// Sets a key unless a newer token was seen; the newest is at `KEY:fencing-token`. In a cluster the key needs a hash tag,
/// so that both are in one slot.
pub fn redis_set(key: &str, value: &[u8], token: FencingToken) -> RedisScript {
    let keys = vec![key.to_owned(), format!("{key}:fencing-token")];
    RedisScript { text: SET, keys, arguments: vec![digits(token), value.to_vec()] }
}

/// Sets a field of a hash unless a newer token was seen; the newest is in the field `fencing-token` of the same hash.
pub fn redis_hset(key: &str, field: &str, value: &[u8], token: FencingToken) -> RedisScript {
    let arguments = vec![digits(token), field.as_bytes().to_vec(), value.to_vec()];
    RedisScript { text: HSET, keys: vec![key.to_owned()], arguments }
}

fn digits(token: FencingToken) -> Vec<u8> {
    token.to_string().into_bytes()
}

const SET: &str = "\
local seen = redis.call('GET', KEYS[2])
if seen and tonumber(seen) > tonumber(ARGV[1]) then
    return seen
end
redis.call('SET', KEYS[2], ARGV[1])
redis.call('SET', KEYS[1], ARGV[2])
return ARGV[1]
";

const HSET: &str = "\
local seen = redis.call('HGET', KEYS[1], 'fencing-token')
if seen and tonumber(seen) > tonumber(ARGV[1]) then
    return seen
end
redis.call('HSET', KEYS[1], 'fencing-token', ARGV[1], ARGV[2], ARGV[3])
return ARGV[1]
";
