//! Draws the state of `buildpool top`.

use super::lists::{self, Row};
use super::{Link, Log, Mode, Panel, Top};
use crate::terminal::{Colour, cut};
use buildpool_protocol::output::Stream;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row as TableRow, Table, TableState};
use unicode_width::UnicodeWidthStr;

/// Smallest size at which the lists are readable.
const COLUMNS_MIN: u16 = 40;
const ROWS_MIN: u16 = 12;
/// Rows of the header and the footer.
const FRAME_ROWS: u16 = 2;

const HELP: [(&str, &str); 12] = [
    ("↑ ↓  j k", "move within a list"),
    ("PgUp PgDn  g G", "move by a page; to the first or the last row"),
    ("Tab  ← →", "move to another list"),
    ("Enter", "open the log of the job"),
    ("/", "filter all lists by a text; Esc clears the filter"),
    ("c", "cancel the job"),
    ("d", "drain the worker, or resume it"),
    ("q  Ctrl-C", "quit"),
    ("", ""),
    ("In a log", ""),
    ("f  G", "follow the end; any move up stops following"),
    ("← →", "scroll sideways; q or Esc closes the log"),
];

/// Returns the number of log lines on a screen with this many rows.
pub(super) fn log_rows(rows: u16) -> usize {
    usize::from(rows.saturating_sub(FRAME_ROWS))
}

/// Draws the whole screen.
pub(crate) fn draw(top: &Top, frame: &mut Frame<'_>) {
    let area = frame.area();
    if area.width < COLUMNS_MIN || area.height < ROWS_MIN {
        let text = format!("top needs {COLUMNS_MIN} x {ROWS_MIN}");
        frame.render_widget(Paragraph::new(text), area);
        return;
    }
    let row = |y, height| Rect { y, height, ..area };
    let body = row(1, area.height - FRAME_ROWS);
    match &top.mode {
        Mode::Log(log) => {
            frame.render_widget(log_header(log, area.width), row(0, 1));
            draw_log(log, frame, body);
        }
        Mode::Help => {
            frame.render_widget(header(top), row(0, 1));
            let lines = HELP.map(|(keys, effect)| Line::from(format!("  {keys:<16}{effect}")));
            frame.render_widget(Paragraph::new(lines.to_vec()), body);
        }
        Mode::Lists | Mode::Filter | Mode::Confirm { .. } => {
            frame.render_widget(header(top), row(0, 1));
            draw_lists(top, frame, body);
        }
    }
    frame.render_widget(footer(top), row(area.height - 1, 1));
}

/// The pool at a glance, and the state of the connection.
fn header(top: &Top) -> Line<'static> {
    let lists = &top.lists;
    let ready = lists.workers.iter().filter(|worker| !lists::is_in_trouble(worker) && !worker.draining);
    let sum = |of: fn(&buildpool_protocol::client_link::WorkerSummary) -> u32| -> u32 {
        lists.workers.iter().filter(|worker| worker.connected).map(of).sum()
    };
    let count = |is: fn(&buildpool_protocol::client_link::JobSummary) -> bool| {
        lists.jobs.iter().filter(|job| is(job)).count()
    };
    let more = if lists.is_cut { "+" } else { "" };
    let figures = format!(
        "workers {}/{}  slots {}/{}  running {}{more}  queued {}{more}  failed {}{more}",
        ready.count(),
        lists.workers.len(),
        sum(|worker| worker.busy),
        sum(|worker| worker.slots),
        count(lists::is_active),
        count(lists::is_queued),
        count(lists::has_failed),
    );
    let (state, style) = match &top.link {
        Link::Loading => ("loading".to_owned(), Style::new().fg(Color::Yellow)),
        Link::Live => ("live".to_owned(), Style::new().fg(Color::Green)),
        Link::Lost { secs, .. } => {
            (format!("no connection for {secs}s"), Style::new().fg(Color::Red).add_modifier(Modifier::BOLD))
        }
    };
    let name = usize::from(top.columns).saturating_sub(figures.width() + state.width() + 4);
    Line::from(vec![
        Span::styled(state, style),
        Span::raw(format!("  {figures}  ")),
        Span::styled(cut(&top.pool, name), Style::new().add_modifier(Modifier::DIM)),
    ])
}

/// A question, the filter, a notice, the reason of a lost connection, or the keys.
fn footer(top: &Top) -> Line<'static> {
    let strong = Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD);
    match (&top.mode, &top.notice, &top.link) {
        (Mode::Confirm { question, .. }, _, _) => {
            let columns = usize::from(top.columns).saturating_sub(7);
            Line::styled(format!("{}  y / n", cut(question, columns)), strong)
        }
        (Mode::Filter, _, _) => Line::from(vec![
            Span::styled(format!("/{}", top.filter), strong),
            Span::raw("▏  Enter keeps the filter, Esc clears it"),
        ]),
        (_, Some(notice), _) => Line::styled(notice.clone(), strong),
        (_, None, Link::Lost { reason, .. }) => {
            Line::styled(format!("trying again: {reason}"), Style::new().fg(Color::Red))
        }
        (Mode::Log(_), None, _) => keys("↑↓ scroll  ←→ sideways  g G ends  f follow  q back", ""),
        (Mode::Help, None, _) => keys("any key goes back", ""),
        (Mode::Lists, None, _) => {
            keys("↑↓ move  Tab list  Enter log  / filter  c cancel  d drain  ? help  q quit", &top.filter)
        }
    }
}

fn keys(text: &'static str, filter: &str) -> Line<'static> {
    let dim = Style::new().add_modifier(Modifier::DIM);
    let filter = if filter.is_empty() { String::new() } else { format!("/{filter}  ") };
    Line::from(vec![Span::styled(filter, Style::new().fg(Color::Yellow)), Span::styled(text, dim)])
}

fn draw_lists(top: &Top, frame: &mut Frame<'_>, area: Rect) {
    let rows = Panel::ALL.map(|panel| top.rows_of(panel));
    let needs = [0, 1, 2, 3].map(|index: usize| rows[index].len().max(1));
    let heights = heights(needs, usize::from(area.height) - Panel::ALL.len(), top.focus.index());
    let mut y = area.y;
    for ((panel, rows), height) in Panel::ALL.into_iter().zip(rows).zip(heights) {
        let height = u16::try_from(height).unwrap_or(u16::MAX);
        frame.render_widget(title(top, panel, rows.len()), Rect { y, height: 1, ..area });
        draw_rows(top, panel, &rows, frame, Rect { y: y + 1, height, ..area });
        y += 1 + height;
    }
}

/// Divides the rows of the screen among the lists: an equal share for each that needs it. The
/// focused list gets the remaining rows first, then those with jobs.
fn heights(needs: [usize; 4], rows: usize, focus: usize) -> [usize; 4] {
    let share = rows / needs.len();
    let mut heights = needs.map(|need| need.min(share));
    let mut left = rows - heights.iter().sum::<usize>();
    for index in [focus, Panel::Running.index(), Panel::Failed.index(), Panel::Queue.index(), 0] {
        let more = left.min(needs[index] - heights[index]);
        heights[index] += more;
        left -= more;
    }
    heights
}

fn title(top: &Top, panel: Panel, count: usize) -> Line<'static> {
    let name = match panel {
        Panel::Workers => "Workers",
        Panel::Running => "Running",
        Panel::Queue => "Queue",
        Panel::Failed => "Failed",
    };
    let (mark, style) = if panel == top.focus {
        ("▸", Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD))
    } else {
        (" ", Style::new().add_modifier(Modifier::BOLD))
    };
    let text = format!("{mark}{name} {count} ");
    let line = "─".repeat(usize::from(top.columns).saturating_sub(text.width()));
    Line::from(vec![Span::styled(text, style), Span::styled(line, Style::new().add_modifier(Modifier::DIM))])
}

fn draw_rows(top: &Top, panel: Panel, rows: &[Row], frame: &mut Frame<'_>, area: Rect) {
    if rows.is_empty() {
        let text = if top.filter.is_empty() { "  none" } else { "  none that matches the filter" };
        frame.render_widget(Line::styled(text, Style::new().add_modifier(Modifier::DIM)), area);
        return;
    }
    let widths = widths(rows, usize::from(area.width));
    let shown =
        rows.iter().map(|row| {
            let cells = row.cells.iter().zip(&widths);
            TableRow::new(cells.map(|((text, colour), width)| {
                Cell::from(cut(text, usize::from(*width))).style(style(*colour))
            }))
        });
    let selected = top.selected[panel.index()].index();
    let mut state = TableState::new().with_offset(selected.saturating_sub(usize::from(area.height) / 2));
    let mut table =
        Table::new(shown, widths.iter().map(|width| Constraint::Length(*width))).column_spacing(2);
    if panel == top.focus {
        state.select(Some(selected));
        table = table.row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    }
    frame.render_stateful_widget(table, area, &mut state);
}

/// Returns the widths of the columns: the last two share the space that the others leave.
fn widths(rows: &[Row], columns: usize) -> Vec<u16> {
    let count = rows.first().map_or(0, |row| row.cells.len());
    let natural = |column: usize| rows.iter().map(|row| row.cells[column].0.width()).max().unwrap_or(0);
    let mut widths: Vec<usize> = (0..count).map(natural).collect();
    let [fixed @ .., first, last] = widths.as_mut_slice() else { return Vec::new() };
    fixed.iter_mut().for_each(|width| *width = (*width).min(columns / 4));
    let left = columns.saturating_sub(fixed.iter().sum::<usize>() + 2 * (count - 1));
    let half = (*first).min(left.saturating_sub((*last).min(left / 2)));
    (*first, *last) = (half, left - half);
    widths.into_iter().map(|width| u16::try_from(width).unwrap_or(u16::MAX)).collect()
}

const fn style(colour: Colour) -> Style {
    match colour {
        Colour::Plain => Style::new(),
        Colour::Green => Style::new().fg(Color::Green),
        Colour::Red => Style::new().fg(Color::Red),
        Colour::Yellow => Style::new().fg(Color::Yellow),
        Colour::Dim => Style::new().add_modifier(Modifier::DIM),
    }
}

fn log_header(log: &Log, columns: u16) -> Line<'static> {
    let state = match (&log.ended, log.follows) {
        (Some(reason), _) => reason.clone(),
        (None, true) => "following".to_owned(),
        (None, false) => "paused".to_owned(),
    };
    let job: String = log.job.chars().filter(|c| *c != '-').take(12).collect();
    let text = cut(&log.command, usize::from(columns).saturating_sub(state.width() + job.width() + 8));
    Line::from(vec![
        Span::styled(format!("log {job}  "), Style::new().add_modifier(Modifier::BOLD)),
        Span::styled(format!("{state}  "), Style::new().fg(Color::Cyan)),
        Span::raw(text),
    ])
}

fn draw_log(log: &Log, frame: &mut Frame<'_>, area: Rect) {
    let rows = usize::from(area.height);
    let lines = log.lines.iter().skip(log.first(rows)).take(rows).map(|(stream, text)| {
        let text: String = text.chars().skip(log.left).collect();
        let style = match stream {
            Stream::Stdout => Style::new(),
            Stream::Stderr => Style::new().fg(Color::Yellow),
        };
        Line::styled(text, style)
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
}
