//! One stream of keep-alives for all leases of a connection: a stream of its own for each would cost the cluster more
//! than the keep-alive does.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Status, Streaming};

use crate::proto::{LeaseId, LeaseTtl};

/// The stream, if there is one.
#[derive(Default)]
pub(crate) struct Pulse(Mutex<Option<(usize, Arc<Stream>)>>);

/// A stream to one member.
struct Stream {
    requests: mpsc::UnboundedSender<LeaseId>,
    beats: Mutex<Beats>,
}

/// Who waits for an answer, in the order of the requests: a member answers in that order.
#[derive(Default)]
struct Beats {
    waiting: VecDeque<(i64, oneshot::Sender<Result<LeaseTtl, Status>>)>,
    over: bool,
}

impl Pulse {
    /// Lets a lease start anew at the member whose turn it is. `open` opens a stream there, on the runtime of the store.
    pub(crate) async fn beat<F>(
        &self,
        turn: usize,
        id: i64,
        open: impl FnOnce(UnboundedReceiverStream<LeaseId>) -> F,
    ) -> Result<LeaseTtl, Status>
    where
        F: Future<Output = Result<Streaming<LeaseTtl>, Status>> + Send + 'static,
    {
        let told = {
            let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let known = slot.as_ref().filter(|(at, _)| *at == turn).and_then(|(_, stream)| stream.ask(id));
            match known {
                Some(told) => told,
                None => {
                    let (requests, outgoing) = mpsc::unbounded_channel();
                    let stream = Arc::new(Stream { requests, beats: Mutex::default() });
                    let told = stream.ask(id).ok_or_else(ended)?;
                    let opening = open(UnboundedReceiverStream::new(outgoing));
                    // It lasts for as long as the member: what it keeps is only who waits.
                    let heard = Arc::downgrade(&stream);
                    tokio::spawn(async move {
                        let end = match opening.await {
                            Err(status) => status,
                            Ok(mut answers) => loop {
                                let answer = answers.next().await.unwrap_or_else(|| Err(ended()));
                                match (answer, heard.upgrade()) {
                                    (Ok(answer), Some(stream)) if stream.tell(&answer) => {}
                                    (Ok(_), _) => break ended(),
                                    (Err(status), _) => break status,
                                }
                            },
                        };
                        if let Some(stream) = heard.upgrade() {
                            stream.end(&end);
                        }
                    });
                    *slot = Some((turn, stream));
                    told
                }
            }
        };
        told.await.unwrap_or_else(|_| Err(ended()))
    }
}

impl Stream {
    /// `None`: it is over.
    fn ask(&self, id: i64) -> Option<oneshot::Receiver<Result<LeaseTtl, Status>>> {
        let (tell, told) = oneshot::channel();
        let mut beats = self.beats();
        if beats.over || self.requests.send(LeaseId { id }).is_err() {
            return None;
        }
        beats.waiting.push_back((id, tell));
        Some(told)
    }

    /// `false`: that was the answer to something else, and none of them can be trusted.
    fn tell(&self, answer: &LeaseTtl) -> bool {
        let first = self.beats().waiting.pop_front();
        match first {
            Some((id, tell)) if id == answer.id => {
                // Who has given up does not hear it.
                let _ = tell.send(Ok(answer.clone()));
                true
            }
            Some((_, tell)) => {
                let _ = tell.send(Err(ended()));
                false
            }
            None => false,
        }
    }

    fn end(&self, status: &Status) {
        let mut beats = self.beats();
        beats.over = true;
        for (_, tell) in beats.waiting.drain(..) {
            let _ = tell.send(Err(status.clone()));
        }
    }

    fn beats(&self) -> MutexGuard<'_, Beats> {
        self.beats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ended() -> Status {
    Status::unavailable("the stream of keep-alives ended without an answer")
}
