//! `howdah top`: a running server, live in a terminal.
//!
//! ```text
//! control socket ── snapshot ──┐
//! keys ──> view (sorting, ...) ┴──> draw ──> terminal, or plain text with --once
//! ```
//!
//! The snapshot is what the status page shows, so it costs the server one such page each time, and no worker.

mod draw;
mod looker;
mod view;
mod words;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use howdah_metrics::Snapshot;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::{cursor, execute};

use crate::control::look::{find_server, look};
use crate::options::top::Top;
use crate::output;
use crate::over::on_end;
use draw::{Frame, height};
use looker::Looker;
use view::{Deed, View};

/// Columns of a frame that goes to no terminal.
const WIDTH: u16 = 120;

/// Looks until the person has seen enough.
pub(crate) fn run(top: &Top) -> anyhow::Result<ExitCode> {
    let path = find_server(&top.instance)?;
    // Before the terminal is ours: that there is no server is told in it.
    let first = look(&path)?;
    if top.once {
        print_once(&first)?;
    } else if !(io::stdout().is_terminal() && io::stdin().is_terminal()) {
        bail!("howdah top needs a terminal; --once prints what it would show");
    } else if std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
        bail!(
            "howdah top draws on a terminal, and TERM says that this one is dumb; --once prints what it would show"
        );
    } else {
        watch(path, top, first)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn watch(path: PathBuf, top: &Top, first: Snapshot) -> anyhow::Result<()> {
    let drawing = Arc::<Mutex<()>>::default();
    let other = Arc::clone(&drawing);
    // A signal that comes before the terminal is ours ends this when it is.
    let beginning = drawing.lock().unwrap_or_else(PoisonError::into_inner);
    on_end(move |status| {
        // Nothing is drawn any more.
        let _drawing = other.lock().unwrap_or_else(PoisonError::into_inner);
        put_back();
        std::process::exit(status);
    })?;
    // Restores the terminal when something panics, too.
    let terminal = ratatui::try_init().context("cannot use this terminal")?;
    drop(beginning);
    let mut screen = Screen { terminal, drawing };
    let outcome = live(&mut screen, Looker::new(path), top, first);
    put_back();
    // Its end would put the cursor back once more, and cannot bear it that there is no terminal any more.
    std::mem::forget(screen);
    outcome
}

/// Leaves the terminal as it was. Where it is gone there is nothing to be put back, and nobody to be told.
fn put_back() {
    let _ = ratatui::try_restore();
    let _ = execute!(io::stdout(), cursor::Show);
}

/// The terminal, and who has it.
struct Screen {
    terminal: ratatui::DefaultTerminal,
    drawing: Arc<Mutex<()>>,
}

impl Screen {
    fn draw(&mut self, frame: &Frame, view: &mut View) -> anyhow::Result<()> {
        let _drawing = self.drawing.lock().unwrap_or_else(PoisonError::into_inner);
        self.terminal.draw(|canvas| draw::draw(canvas, frame, view)).context("cannot draw")?;
        Ok(())
    }
}

fn live(screen: &mut Screen, mut looker: Looker, top: &Top, first: Snapshot) -> anyhow::Result<()> {
    let mut view = View::new(top.interval.limit().unwrap_or(Duration::from_secs(1)));
    let mut frame = Frame::new(first);
    let mut due = Instant::now() + view.interval;
    loop {
        screen.draw(&frame, &mut view)?;
        let wait = due.saturating_duration_since(Instant::now());
        if event::poll(wait).context("cannot read keys")? {
            if act(&mut view, &event::read()?) == Deed::Quit {
                return Ok(());
            }
            due = due.min(Instant::now() + view.interval);
        } else if view.paused {
            due = Instant::now() + view.interval;
        } else if let Some(next) = looker.look() {
            frame.follow(next);
            due = Instant::now() + view.interval;
        }
    }
}

fn act(view: &mut View, event: &Event) -> Deed {
    match event {
        Event::Key(key) if key.kind == KeyEventKind::Press => view.key(*key),
        // A new size is drawn to by the next turn.
        _ => Deed::Go,
    }
}

/// The same frame, as long as it needs, without colours.
fn print_once(snapshot: &Snapshot) -> anyhow::Result<()> {
    let frame = Frame::new(snapshot.clone());
    let mut view = View::plain();
    let size = (WIDTH, height(&frame));
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1))?;
    terminal.draw(|canvas| draw::draw(canvas, &frame, &mut view))?;
    output::write(text_of(terminal.backend()))
}

/// What stands on the screen, line by line.
fn text_of(backend: &TestBackend) -> String {
    let buffer = backend.buffer();
    let width = usize::from(buffer.area.width).max(1);
    let mut text = String::new();
    for row in buffer.content.chunks(width) {
        let line: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
