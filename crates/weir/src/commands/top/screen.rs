//! What `weir top` draws.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Gauge, Paragraph, Row, Sparkline, Table};
use weir_engine::ActionView;
use weir_types::{Bytes, NanoUsd};

use super::rates::{Rates, RequestRate, TenantRate};
use super::view::View;
use crate::commands::actions::{how_far, verb};
use crate::render::seconds;

const PLOT_ROWS: u16 = 5;
/// From these shares on there is an alert, too (monitoring/rules.yml).
const DIRTY_BAD: f64 = 0.85;
const JOURNAL_BAD: f64 = 0.75;
/// Lines of what is wrong that are shown.
const ALARMS_MAX: usize = 4;

pub(super) fn draw(frame: &mut Frame<'_>, view: &View) {
    let alarms = alarms(view);
    let actions = view.sample.actions.len().min(5) as u16;
    let requests = view.rates.requests.len() as u16;
    let heights = [
        Constraint::Length(1),
        Constraint::Length(alarms.len() as u16),
        Constraint::Length(PLOT_ROWS),
        Constraint::Length(3),
        Constraint::Length(3),
        Constraint::Length(if actions == 0 { 0 } else { actions + 1 }),
        Constraint::Length(requests + 2),
        Constraint::Min(2),
        Constraint::Length(1),
    ];
    let [title, wrong, plots, reads, tier, doing, asked, who, keys] =
        Layout::vertical(heights).areas(frame.area());
    frame.render_widget(title_line(view), title);
    frame.render_widget(Paragraph::new(alarms), wrong);
    draw_plots(frame, plots, view);
    frame.render_widget(Paragraph::new(read_lines(&view.rates)), reads);
    draw_tier(frame, tier, view);
    if actions > 0 {
        frame.render_widget(action_list(&view.sample.actions), doing);
    }
    frame.render_widget(request_table(&view.rates), asked);
    frame.render_widget(tenant_table(&view.rates), who);
    let text = format!(
        "q ends  space {}  + - interval {} ms",
        if view.paused { "goes on" } else { "pauses" },
        view.every_ms
    );
    frame.render_widget(Line::from(text).dim(), keys);
}

fn title_line(view: &View) -> Line<'static> {
    let status = &view.sample.status;
    let place = status.mountpoint.as_ref().map(|at| format!(" on {}", at.display()));
    Line::from(vec![
        Span::from(format!("{}{}", status.engine.volume, place.unwrap_or_default())).bold(),
        Span::from(format!(
            "  up {}, {:.0} operations/s",
            seconds(status.uptime_s),
            view.rates.operations_per_s
        )),
    ])
}

/// What somebody should look at.
fn alarms(view: &View) -> Vec<Line<'static>> {
    let engine = &view.sample.status.engine;
    let mut told: Vec<String> = Vec::new();
    told.extend(view.gone.clone());
    if engine.fenced {
        told.push("FENCED: another writer took the volume over".to_owned());
    }
    let lasting = engine.troubles.iter().filter(|trouble| trouble.lasting);
    told.extend(lasting.map(|trouble| format!("BUCKET FAILS: {}", trouble.error)));
    told.extend(engine.flush_failed.as_ref().map(|of| format!("FLUSH FAILS: {}", of.error)));
    if engine.files_in_doubt > 0 {
        told.push(format!("LOST BYTES of {} files: see the log", engine.files_in_doubt));
    }
    if !engine.aside.entries.is_empty() {
        told.push("SET ASIDE: data that is not part of the volume, see `weir recover`".to_owned());
    }
    let red = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
    told.into_iter().take(ALARMS_MAX).map(|text| Line::styled(text, red)).collect()
}

fn rate(bytes_per_s: u64) -> String {
    format!("{}/s", Bytes(bytes_per_s))
}

struct Plot {
    name: &'static str,
    color: Color,
    of: fn(&Rates) -> u64,
}

fn draw_plots(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let plots = [
        Plot { name: "read", color: Color::Green, of: |rates| rates.read_bytes_per_s },
        Plot { name: "written", color: Color::Yellow, of: |rates| rates.written_bytes_per_s },
        Plot { name: "from the bucket", color: Color::Blue, of: |rates| rates.fetched_bytes_per_s },
    ];
    let areas = Layout::horizontal([Constraint::Fill(1); 3]).spacing(1).split(area);
    for (Plot { name, color, of }, area) in plots.into_iter().zip(areas.iter()) {
        let room = usize::from(area.width);
        let skip = view.history.len().saturating_sub(room);
        let data: Vec<u64> = view.history.iter().skip(skip).map(of).collect();
        let title = format!("{name} {}", rate(of(&view.rates)));
        let plot = Sparkline::default().block(Block::new().title(title)).data(&data).fg(color);
        frame.render_widget(plot, *area);
    }
}

/// Where reads come from, what waits, and what it costs.
fn read_lines(rates: &Rates) -> Vec<Line<'static>> {
    let hit = match rates.hit_percent {
        None => "nothing read through the daemon".to_owned(),
        Some(percent) => format!("through the daemon {percent:.1}% were here already"),
    };
    let cost = NanoUsd(rates.nano_usd_per_hour);
    vec![
        Line::from(format!(
            "opens    {:.0}/s read by the kernel itself, {:.0}/s by the daemon; {hit}",
            rates.passthrough_opens_per_s, rates.other_opens_per_s
        )),
        Line::from(format!(
            "bucket   {:.0} requests/min, flushed {}; {cost} an hour at this rate, storage included",
            rates.requests_per_min,
            rate(rates.flushed_bytes_per_s)
        )),
        Line::from(match rates.waited_ms_per_s > 0.0 {
            true => format!("LIMITED  I/Os waited {:.0} ms in each second", rates.waited_ms_per_s),
            false => "limits   nothing waits".to_owned(),
        }),
    ]
}

fn draw_tier(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let tier = &view.sample.status.engine.tier;
    let journal = &view.sample.status.engine.journal;
    let share = |part: u64, of: u64| (part as f64 / of.max(1) as f64).clamp(0.0, 1.0);
    let log = if journal.durable { "journal" } else { "redo log" };
    // A tier is a cache and may be full, and a redo log as long as it likes.
    let gauges = [
        (
            "tier",
            (share(tier.used_bytes, tier.limit_bytes), f64::INFINITY),
            format!("{} of {}", Bytes(tier.used_bytes), Bytes(tier.limit_bytes)),
        ),
        (
            "dirty",
            (share(tier.dirty_bytes, tier.limit_bytes), DIRTY_BAD),
            format!("{} not in the bucket yet", Bytes(tier.dirty_bytes)),
        ),
        (
            log,
            (
                share(journal.used_bytes, journal.limit_bytes),
                if journal.durable { JOURNAL_BAD } else { f64::INFINITY },
            ),
            format!("{} of {}", Bytes(journal.used_bytes), Bytes(journal.limit_bytes)),
        ),
    ];
    let rows = Layout::vertical([Constraint::Length(1); 3]).split(area);
    for ((name, (share, bad), label), row) in gauges.into_iter().zip(rows.iter()) {
        let [left, right] =
            Layout::horizontal([Constraint::Length(9), Constraint::Fill(1)]).areas(*row);
        frame.render_widget(Line::from(name), left);
        let color = if share > bad { Color::Red } else { Color::Cyan };
        let style = Style::new().fg(color).bg(Color::DarkGray);
        frame.render_widget(Gauge::default().ratio(share).label(label).gauge_style(style), right);
    }
}

fn action_list(actions: &[ActionView]) -> Paragraph<'static> {
    let line = |action: &ActionView| {
        let what = verb(action.request.kind);
        Line::from(format!("  {} {what}: {}", action.id.0, how_far(action)))
    };
    let mut lines = vec![Line::from("actions").bold()];
    lines.extend(actions.iter().take(5).map(line));
    Paragraph::new(lines)
}

fn request_table(rates: &Rates) -> Table<'static> {
    let row = |of: &RequestRate| {
        let failed = match of.failed_per_min > 0.0 {
            true => Cell::from(format!("{:>8.0}", of.failed_per_min)).fg(Color::Red),
            false => Cell::from(format!("{:>8}", "-")),
        };
        Row::new([
            Cell::from(of.component.clone()),
            Cell::from(of.kind.clone()),
            Cell::from(format!("{:>8.0}", of.per_min)),
            failed,
            Cell::from(format!("{:>10.1}", of.mean_ms)),
        ])
    };
    let widths = [12, 8, 8, 8, 10].map(Constraint::Length);
    let head = Row::new(["requests of", "kind", " per min", "  failed", "   mean ms"]).bold();
    Table::new(rates.requests.iter().map(row), widths).header(head)
}

fn tenant_table(rates: &Rates) -> Table<'static> {
    let row = |of: &TenantRate| {
        Row::new([
            of.path.clone(),
            of.user.to_string(),
            format!("{:>13}", rate(of.read_bytes_per_s)),
            format!("{:>13}", rate(of.written_bytes_per_s)),
            format!("{:>13}", rate(of.fetched_bytes_per_s)),
            format!("{:>9.0}", of.waited_ms_per_s),
        ])
    };
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(8),
        Constraint::Length(13),
        Constraint::Length(13),
        Constraint::Length(13),
        Constraint::Length(9),
    ];
    let head =
        ["directory", "user", "         read", "      written", "   had to come", "waits, ms"];
    Table::new(rates.tenants.iter().map(row), widths).header(Row::new(head).bold())
}
