//! Several claims by one step per node, where one place has all their locks.
//!
//! Each stays a claim of its own, with its own votes, lease and release: only the first request of all of them travels as
//! one. A node that cannot grant all at once changes nothing, and is then asked by each claim alone.

use std::sync::Arc;

use super::Course;
use crate::error::StoreErrorKind;
use crate::event::EventKind;
use crate::foreign;
use crate::store::{Answer, Event, Mailbox, Part, Post, Reply, Step, Trouble};

/// Begins claims that were only enrolled and have no place in line.
pub(crate) fn begin_all(courses: &[Arc<Course>]) {
    match courses.first() {
        Some(first) if courses.len() > 1 && first.quorum.abilities.together => begin_together(courses),
        _ => courses.iter().for_each(Course::begin),
    }
}

fn begin_together(courses: &[Arc<Course>]) {
    let quorum = courses[0].quorum.clone();
    let now = quorum.clock.now();
    let mut wakers = Vec::new();
    let begun = courses.iter().filter_map(|course| {
        let token = quorum.proposal(None);
        let Some((claim, attempt)) = course.begin_carried(now, token, false) else {
            // Its time is over already, or the connection is shutting down: alone, it finds that out.
            course.begin();
            return None;
        };
        wakers.extend(course.note(EventKind::Asked));
        Some((course.clone(), Part { claim, attempt, token }))
    });
    let (claims, parts): (Vec<Arc<Course>>, Vec<Part>) = begun.unzip();
    let Some(ttl) = claims.first().map(|course| course.claim.ttl) else { return };
    let parts: Arc<[Part]> = parts.into();
    let batch = Arc::new(Batch { claims, parts: parts.clone() });
    for (node, store) in quorum.nodes.iter().enumerate() {
        let deadline = quorum.send_until(node, now, ttl);
        store.submit(Step::AcquireAll { parts: parts.clone() }, deadline, Reply::new(batch.clone(), node, 0));
    }
    // Ended in between, by a shutdown.
    for (course, part) in batch.claims.iter().zip(&*parts).filter(|(course, _)| course.is_past()) {
        course.undo(part.token, now);
    }
    foreign::wake(wakers);
    quorum.herald.deliver();
}

/// Passes each node's answer on to all claims.
struct Batch {
    claims: Vec<Arc<Course>>,
    parts: Arc<[Part]>,
}

impl Mailbox for Batch {
    fn post(self: Arc<Self>, post: Post) {
        let Event::Answer(answer) = post.event else { return };
        for (at, (course, part)) in self.claims.iter().zip(&*self.parts).enumerate() {
            let answer = match &answer {
                Ok(Answer::AllGranted { tokens }) => match tokens.get(at) {
                    Some(token) => Ok(Answer::Granted { token: *token }),
                    None => Err(Trouble::new(StoreErrorKind::Unexpected, "it did not say what it granted")),
                },
                other => other.clone(),
            };
            course.clone().post(Post { node: post.node, request: part.attempt, event: Event::Answer(answer) });
        }
    }
}
