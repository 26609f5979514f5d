//! Locks and async runtimes: none is needed, and a blocked one loses nothing.

use std::time::Duration;

use fencepost_core::store::{self, Memory};
use fencepost_core::{Blocking, Locks};

fn memory() -> Locks {
    store::connect(|opening| Ok(vec![Memory::new(opening.clock)])).block().expect("memory is there")
}

#[test]
fn a_user_who_blocks_the_runtime_for_three_ttls_keeps_the_lock() {
    let locks = memory();
    let ttl = Duration::from_millis(400);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let guard = locks.lock("x").ttl(ttl).acquire().await.expect("free");
        // The fault itself: nothing on this runtime runs for three times the ttl.
        std::thread::sleep(ttl * 3);
        assert!(guard.is_held());
        assert!(locks.lock("x").try_acquire().await.expect("an answer").is_none());
        assert!(guard.release().await.is_ok());
    });
}

#[test]
fn a_task_that_panics_frees_its_lock() {
    let locks = memory();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let holder = locks.clone();
        let task = tokio::spawn(async move {
            let _guard = holder.lock("x").acquire().await.expect("free");
            std::panic::resume_unwind(Box::new("the work failed"));
        });
        assert!(task.await.is_err());
        assert!(locks.lock("x").try_acquire().await.expect("an answer").is_some());
    });
}

#[test]
fn a_guard_dropped_after_its_runtime_is_gone_is_released() {
    let locks = memory();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let guard = runtime.block_on(locks.lock("x").acquire()).expect("free");
    drop(runtime);
    drop(guard);
    assert!(locks.lock("x").try_acquire().block().expect("an answer").is_some());
}

#[test]
fn every_future_can_be_spawned_on_a_runtime_of_many_threads() {
    fn send<F: Future + Send>(future: F) -> F {
        future
    }
    let locks = memory();
    let lock = locks.lock("x");
    drop(send(lock.acquire()));
    drop(send(lock.try_acquire()));
    drop(send(lock.run(async |guard| Ok::<_, ()>(guard.token()))));
    drop(send(locks.inspect("x")));
    drop(send(locks.shutdown(Duration::ZERO)));
    drop(send(locks.clone().events().next()));
    let guard = memory().lock("y").acquire().block().expect("free");
    drop(send(guard.lost()));
    drop(send(guard.renew()));
    drop(send(guard.release()));
}
