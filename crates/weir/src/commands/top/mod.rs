//! `weir top`: what a mount is doing, second by second.

mod rates;
mod screen;
mod view;

use std::collections::VecDeque;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use crossterm::event::{Event, EventStream, KeyCode, KeyEventKind, KeyModifiers};
use futures::StreamExt;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use tokio::time::Instant;
use weir_cost::{PriceBook, Prices};
use weir_types::{ErrorKind, FsError, Result};

use self::rates::{Rates, Sample};
use self::view::View;
use crate::cli::TopArgs;
use crate::client::Client;
use crate::commands::prices;
use crate::render;

/// What `+` and `-` choose from, in milliseconds.
const INTERVALS_MS: [u64; 6] = [250, 500, 1_000, 2_000, 5_000, 10_000];
/// A screen without a terminal.
const PLAIN: (u16, u16) = (100, 40);

pub(crate) async fn run(args: TopArgs) -> Result<ExitCode> {
    let book = PriceBook::built_in();
    let prices = prices::at(&book, &args.region)?;
    let client = match &args.dir {
        Some(dir) => Client::at(dir)?,
        None => Client::only("weir top /mnt")?,
    };
    let sample = Sample::take(&client).await?;
    let mut view = View {
        sample,
        rates: Rates::default(),
        history: VecDeque::new(),
        every_ms: args.every.max(100),
        paused: false,
        gone: None,
    };
    if args.json || !std::io::stdout().is_terminal() {
        return print(&args, &client, prices, &mut view).await;
    }
    let mut terminal = ratatui::init();
    let shown = show(&args, &client, prices, &mut view, &mut terminal).await;
    ratatui::restore();
    shown?;
    // What was on the screen last stays where it can be copied from.
    render::say(&plain(&view)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Screens, or lines of JSON, one after the other.
async fn print(
    args: &TopArgs,
    client: &Client,
    prices: Prices<'_>,
    view: &mut View,
) -> Result<ExitCode> {
    let mut left = args.count;
    while left != Some(0) {
        tokio::time::sleep(Duration::from_millis(view.every_ms)).await;
        view.look(client, prices).await;
        if let Some(error) = view.gone.take() {
            return Err(FsError::new(ErrorKind::Retry, error));
        }
        match args.json {
            true => render::say(&render::json_line(&view.rates)?)?,
            false => render::say(&plain(view)?)?,
        }
        left = left.map(|left| left - 1);
    }
    Ok(ExitCode::SUCCESS)
}

/// The screen as text.
fn plain(view: &View) -> Result<String> {
    let failed = |e| FsError::new(ErrorKind::Bug, format!("draw: {e}"));
    let mut terminal = Terminal::new(TestBackend::new(PLAIN.0, PLAIN.1)).map_err(failed)?;
    terminal.draw(|frame| screen::draw(frame, view)).map_err(failed)?;
    let buffer = terminal.backend().buffer();
    let rows = buffer.content().chunks(usize::from(PLAIN.0));
    let lines = rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>());
    let text = lines.map(|line| format!("{}\n", line.trim_end())).collect::<String>();
    Ok(format!("{}\n", text.trim_end()))
}

async fn show(
    args: &TopArgs,
    client: &Client,
    prices: Prices<'_>,
    view: &mut View,
    terminal: &mut ratatui::DefaultTerminal,
) -> Result<()> {
    let failed = |e| FsError::local_io("draw on the terminal", e);
    let mut keys = EventStream::new();
    let mut left = args.count;
    let mut next = Instant::now();
    while left != Some(0) {
        terminal.draw(|frame| screen::draw(frame, view)).map_err(failed)?;
        tokio::select! {
            () = tokio::time::sleep_until(next), if !view.paused => {
                next = Instant::now() + Duration::from_millis(view.every_ms);
                view.look(client, prices).await;
                left = left.map(|left| left - 1);
            }
            key = keys.next() => match key {
                Some(Ok(event)) if ends(&event, view) => return Ok(()),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(failed(error)),
                None => return Ok(()),
            }
        }
    }
    Ok(())
}

/// What a key asks for; whether that is the end.
fn ends(event: &Event, view: &mut View) -> bool {
    let Event::Key(key) = event else { return false };
    if key.kind == KeyEventKind::Release {
        return false;
    }
    let faster = INTERVALS_MS.iter().rev().find(|ms| **ms < view.every_ms);
    let slower = INTERVALS_MS.iter().find(|ms| **ms > view.every_ms);
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return true,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
        KeyCode::Char(' ' | 'p') => view.paused = !view.paused,
        KeyCode::Char('+') => view.every_ms = *slower.unwrap_or(&view.every_ms),
        KeyCode::Char('-') => view.every_ms = *faster.unwrap_or(&view.every_ms),
        _ => {}
    }
    false
}
