//! The front without Perl: a thread stands in for the workers and gives one canned answer to every request.
//!
//! What is left is the price of HTTP, the queue and the wake-ups; Howdah with Perl is compared with it.
//! `cargo run --release --example floor -- 127.0.0.1:5001 [WORKERS]`

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use howdah_front::{
    Capacity, Config, Front, ListenOptions, Listener, PoolSetup, Setup, Sharing, Stock, Upgrades, runtime,
};
use howdah_wire::queue::Claim;
use howdah_wire::{Answer, Outgoing, RESPONSE_HEAD_READY, Roster, Segment, Shape};
use rustix::thread::futex;

const LINES: &[u8] = b"Content-Type: text/plain\r\n";
const BODY: &[u8] = b"Hello World";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:5001".to_owned()).parse()?;
    let workers: u16 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let shape = Shape { fronts: 1, workers: 64, slots: 1100 };
    let (memfd, segment) = howdah_sys::create_segment(shape)?;
    std::mem::forget(memfd);
    let config = Config::default();
    let listeners = Listener::bind(&address, &ListenOptions::default())?;
    let eventfd = howdah_sys::eventfd()?;
    let bell = Arc::new(eventfd.try_clone()?);
    runtime()?.block_on(async {
        let (overdue, _) = tokio::sync::mpsc::unbounded_channel();
        let (departed, _) = tokio::sync::mpsc::unbounded_channel();
        let (damaged, _) = tokio::sync::mpsc::unbounded_channel();
        let (answers, _) = tokio::sync::mpsc::channel(1);
        let config = Arc::new(config);
        let pool = PoolSetup {
            name: "/".into(),
            mount: None,
            segment,
            roster: Roster::default(),
            max_queue: 1024,
            cpus: 1,
            request_timeout: Duration::ZERO,
            upgrades: Arc::new(Upgrades::new(0)),
            rush: Arc::default(),
            overdue,
            departed,
            damaged,
            answers,
        };
        let front = Front::start(Setup {
            stock: Arc::new(Stock::new(&config)),
            tls: None,
            config,
            pools: vec![pool],
            index: 0,
            eventfd,
            listeners,
            access_log: None,
            slow_log: None,
            recorder: howdah_metrics::Recorder::new(),
            local: None,
            capacity: Box::leak(Box::new(Capacity::new(None))),
            sharing: Box::leak(Box::new(Sharing::new(1, false))),
        })?;
        for worker in 0..workers {
            front.worker_up(0, worker, howdah_sys::socketpair_seqpacket()?.0);
            let bell = Arc::clone(&bell);
            std::thread::spawn(move || serve(segment, worker, &bell));
        }
        std::future::pending::<Result<(), std::io::Error>>().await
    })?;
    Ok(())
}

fn serve(segment: Segment, worker: u16, bell: &std::os::fd::OwnedFd) {
    let queue = segment.queue();
    let cell = &segment.workers()[worker as usize];
    loop {
        let Some(claim) = queue.claim(worker) else {
            queue.cells.enter_idle(worker, cell, howdah_sys::monotonic_ns());
            if queue.may_sleep(cell) {
                let _ = futex::wait(&cell.wake, futex::Flags::empty(), 0, None);
            }
            queue.cells.leave_idle(worker);
            continue;
        };
        answer(segment, claim);
        if queue.finish(claim, worker) && segment.front_of(claim.slot).tell(claim.slot) {
            let _ = howdah_sys::signal_eventfd(bell);
        }
    }
}

fn answer(segment: Segment, Claim { slot, ticket }: Claim) {
    let control = &segment.controls()[slot as usize];
    let mut response = Outgoing::new(ticket);
    control.claimed_at.store(howdah_sys::monotonic_ns(), Relaxed);
    let room = segment.produce(slot, &mut response, LINES) + segment.produce(slot, &mut response, BODY);
    debug_assert_eq!(room, LINES.len() + BODY.len());
    control.finished_at.store(howdah_sys::monotonic_ns(), Relaxed);
    let (flags, head_length) = (RESPONSE_HEAD_READY, LINES.len() as u32);
    response.set_head(control, Answer { flags, status: 200, head_length, ..Answer::default() });
}
