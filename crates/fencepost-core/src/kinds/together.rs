//! Several futures at once.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

pub(crate) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// All answers, in the order of the futures.
pub(crate) async fn all<T: Unpin>(mut futures: Vec<Boxed<'_, T>>) -> Vec<T> {
    let mut done: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, done) in futures.iter_mut().zip(&mut done).filter(|(_, done)| done.is_none()) {
            if let Poll::Ready(answer) = future.as_mut().poll(context) {
                *done = Some(answer);
            }
        }
        if done.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}

/// Both answers.
pub(super) async fn both<A, B>(mut one: Boxed<'_, A>, mut other: Boxed<'_, B>) -> (A, B)
where
    A: Unpin,
    B: Unpin,
{
    let (mut first, mut second) = (None, None);
    poll_fn(|context| {
        if first.is_none()
            && let Poll::Ready(answer) = one.as_mut().poll(context)
        {
            first = Some(answer);
        }
        if second.is_none()
            && let Poll::Ready(answer) = other.as_mut().poll(context)
        {
            second = Some(answer);
        }
        match (first.take(), second.take()) {
            (Some(first), Some(second)) => Poll::Ready((first, second)),
            (one, other) => {
                (first, second) = (one, other);
                Poll::Pending
            }
        }
    })
    .await
}
