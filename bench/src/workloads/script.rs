//! What the fenced acquire script costs the server, beside the plain way to write it.

use fencepost::{Blocking, connect};

use crate::Outcome;
use crate::contest::Servers;
use crate::nodes::Nodes;
use crate::runner::{Goal, Readings, Row, Unit};

const OURS: &str = "fenced acquire script, command time";
const SPEC: &str = "the same as first written down, command time";

/// Hot: the server has them all in its caches.
const LOCKS: u32 = 500;
const PASSES: u32 = 4;

/// Five steps, one after another, and a table as the reply.
const SCRIPT: &str = "if redis.call('EXISTS', KEYS[1]) == 1 then return {0, redis.call('PTTL', KEYS[1])} end \
    local last = redis.call('GET', KEYS[2]) local token = tonumber(ARGV[2]) \
    if last and token <= tonumber(last) then token = tonumber(last) + 1 end \
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3]) \
    redis.call('SET', KEYS[2], string.format('%.0f', token), 'PX', 86400000) return {1, token}";

pub(crate) fn rows() -> Vec<Row> {
    vec![Row::new(OURS, Unit::Nanos).against(SPEC).goal(Goal::RatioAtMost(0.7)), Row::new(SPEC, Unit::Nanos)]
}

pub(crate) fn measure(nodes: &Nodes, readings: &mut Readings) -> Outcome<()> {
    let locks = connect(nodes.url()).block()?;
    let (mut ours, mut spec) = (Vec::new(), Vec::new());
    for pass in 0..PASSES {
        let before = nodes.usage(false);
        let take = |number| locks.lock(format!("script-{number}")).acquire().block();
        let guards = (0..LOCKS).map(take).collect::<Result<Vec<_>, _>>()?;
        let between = nodes.usage(false);
        for guard in guards {
            guard.release().block()?;
        }
        let after = nodes.usage(false);
        ours.push((between - before).per_script());
        nodes.eval_many(0, SCRIPT, LOCKS, pass)?;
        spec.push((nodes.usage(false) - after).per_script());
    }
    // The first pass made the keys.
    readings.note(OURS, crate::runner::median(&ours[1..]));
    readings.note(SPEC, crate::runner::median(&spec[1..]));
    Ok(())
}
