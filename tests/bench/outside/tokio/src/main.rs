//! Tokio's blocking pool with all its threads started; driven by pool_outside.c, which says how to talk to it
//! (as to Burst.java): burst CLOSES FOLLOWERS ANSWER_NS WORK_NS THREADS

use std::io::{Read, Write};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{mpsc, Arc, Barrier};
use std::time::{Duration, Instant};

fn main() -> std::io::Result<()> {
    let args: Vec<u64> = std::env::args().skip(1).map(|word| word.parse().expect("a number")).collect();
    let (closes, followers, threads) = (args[0] as usize, args[1] as usize, args[4] as usize);
    let (answer, work) = (Duration::from_nanos(args[2]), Duration::from_nanos(args[3]));
    let copies = closes * followers;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(threads)
        .thread_keep_alive(Duration::from_secs(86400))
        .thread_stack_size(256 * 1024)
        .build()?;

    // A thread is made when none is idle: so all of them are held at once, once.
    let gate = Arc::new(Barrier::new(threads + 1));
    for _ in 0..threads {
        let gate = gate.clone();
        runtime.spawn_blocking(move || {
            gate.wait();
        });
    }
    gate.wait();

    let starts: Arc<Vec<AtomicI64>> = Arc::new((0..copies).map(|_| AtomicI64::new(0)).collect());
    let mut events = vec![0i64; closes];
    let (mut input, mut output) = (std::io::stdin(), std::io::stdout());
    output.write_all(b"+")?;
    output.flush()?;
    let mut byte = [0u8; 1];
    while input.read(&mut byte)? == 1 && byte[0] == b'g' {
        let (answered, answers) = mpsc::channel();
        let from = Instant::now();
        for close in 0..closes {
            let event = Instant::now();
            events[close] = (event - from).as_nanos() as i64;
            while !work.is_zero() && event.elapsed() < work {}
            for follower in 0..followers {
                let (starts, answered, copy) = (starts.clone(), answered.clone(), close * followers + follower);
                runtime.spawn_blocking(move || {
                    starts[copy].store(from.elapsed().as_nanos() as i64, Ordering::Relaxed);
                    std::thread::sleep(answer);
                    let _ = answered.send(());
                });
            }
        }
        for _ in 0..copies {
            answers.recv().expect("an answer");
        }
        let mut told = Vec::with_capacity(8 * (closes + copies));
        for event in &events {
            told.extend_from_slice(&event.to_le_bytes());
        }
        for start in starts.iter() {
            told.extend_from_slice(&start.load(Ordering::Relaxed).to_le_bytes());
        }
        output.write_all(&told)?;
        output.flush()?;
    }
    std::process::exit(0);
}
