//! What all HTTP/1 connections of a front thread share.

use std::cell::RefCell;
use std::sync::Arc;

use howdah_http1::FieldStore;

use crate::clock::Clock;
use crate::config::Config;
use crate::doors::Doors;
use crate::outflow::Holding;
use crate::record::Records;
use crate::route::Router;
use crate::timers::Timers;

/// Bytes that one read may bring.
pub(crate) const READ_SIZE: usize = 64 * 1024;

/// See the module.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) config: Arc<Config>,
    pub(crate) clock: &'static Clock,
    pub(crate) timers: &'static Timers,
    pub(crate) doors: &'static Doors,
    pub(crate) records: &'static Records,
    pub(crate) holding: &'static Holding,
    pub(crate) router: Router,
    pub(crate) scratch: RefCell<Scratch>,
}

/// Buffers that are only used between two awaits.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// Where reads go.
    pub(crate) input: Box<[u8]>,
    /// Field positions of the head being looked at.
    pub(crate) fields: FieldStore,
    /// The response being built.
    pub(crate) output: Vec<u8>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            input: vec![0; READ_SIZE].into_boxed_slice(),
            fields: FieldStore::new(),
            output: Vec::with_capacity(READ_SIZE),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::sample::world::{World, pieces, run};
    use crate::transport::scripted::Scripted;

    #[test]
    fn connections_share_buffers_but_no_bytes() {
        run(async {
            let world = World::new(Config::default());
            let script = |number: usize| {
                Scripted::new(pieces(&format!("GET /of-{number} HT|TP/1.1\r\nHo|st: h\r\n\r\n")))
            };
            let scripts: Vec<_> = (0..8).map(script).collect();
            let connections: Vec<_> = scripts.iter().map(|script| world.connect(script)).collect();
            for _ in 0..3 {
                world.run(true).await;
                scripts.iter().for_each(Scripted::go_on);
            }
            world.run(true).await;
            for (number, script) in scripts.iter().enumerate() {
                let output = String::from_utf8(script.output()).unwrap();
                assert!(output.ends_with(&format!("\r\n\r\n/of-{number}")), "{number}: {output}");
            }
            assert!(connections.iter().all(|connection| !connection.is_finished()));
        });
    }
}
