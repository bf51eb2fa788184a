//! One result or two laid over each other, as a page that needs nothing else.
//! Pure: from results to HTML with charts inside.
//! Always: whatever limits the trust in a number stands above it; text from results is escaped.
//! Drawing a line is `chart`'s.

use std::fmt::Write;

use super::chart::{Axis, Series, Stroke, draw};
use super::result::{Flow, Latency, RunResult};
use super::text::{count, duration};

/// The name of a run in the legend, and its result.
pub struct Named {
    pub name: String,
    pub result: RunResult,
}

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;color:#222;max-width:980px;margin:24px auto;padding:0 16px}\
h1{font-size:22px;margin:0 0 4px}h2{font-size:17px;margin:28px 0 6px}\
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\
th,td{padding:3px 8px;border-bottom:1px solid #e3e3e3;text-align:right}th:first-child,td:first-child{text-align:left}\
.bad{background:#fde8e4;border-left:4px solid #d55e00;padding:6px 10px;margin:6px 0}\
.note{background:#f4f4f0;border-left:4px solid #999;padding:6px 10px;margin:6px 0}\
svg{width:100%;height:auto;border:1px solid #e3e3e3;margin:6px 0}\
.facts td{text-align:left}.run0{color:#0072b2}.run1{color:#d55e00}code{font-size:13px;overflow-wrap:anywhere}";

/// The page.
pub fn html(runs: &[Named]) -> Result<String, String> {
    let mut out = String::new();
    let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title><style>{STYLE}</style></head><body>\n",
        escape(&format!("ringlog bench: {}", names.join(" and ")))
    );
    for (index, run) in runs.iter().enumerate() {
        add_head(&mut out, index, run, runs.len() > 1);
    }
    out.push_str("<h2>Numbers</h2>\n");
    add_numbers(&mut out, runs);
    out.push_str("<h2>Charts</h2>\n");
    for chart in charts(runs)? {
        out.push_str(&chart);
        out.push('\n');
    }
    out.push_str("<h2>Conditions</h2>\n");
    add_conditions(&mut out, runs);
    out.push_str("</body></html>\n");
    Ok(out)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

fn add_head(out: &mut String, index: usize, run: &Named, several: bool) {
    let name = match several {
        true => format!(
            "<span class=\"run{}\">{}</span>: ",
            index % 2,
            escape(&run.name)
        ),
        false => String::new(),
    };
    let _ = writeln!(out, "<h1>{name}{}</h1>", escape(&run.result.title));
    for trouble in run.result.troubles() {
        let _ = writeln!(out, "<div class=\"bad\">{}</div>", escape(&trouble));
    }
    for note in &run.result.notes {
        let _ = writeln!(out, "<div class=\"note\">{}</div>", escape(note));
    }
}

/// A line of the table of numbers: one value a run; with two, their ratio.
struct Row {
    name: String,
    values: Vec<Option<(f64, String)>>,
}

fn add_numbers(out: &mut String, runs: &[Named]) {
    out.push_str("<table><tr><th></th>");
    for (index, run) in runs.iter().enumerate() {
        let _ = write!(
            out,
            "<th class=\"run{}\">{}</th>",
            index % 2,
            escape(&run.name)
        );
    }
    if let [first, second] = runs {
        let _ = write!(
            out,
            "<th>{} / {}</th>",
            escape(&first.name),
            escape(&second.name)
        );
    }
    out.push_str("</tr>\n");
    for row in rows(runs) {
        if row.values.iter().all(Option::is_none) {
            continue;
        }
        let _ = write!(out, "<tr><td>{}</td>", escape(&row.name));
        for value in &row.values {
            let text = value.as_ref().map_or("", |(_, text)| text);
            let _ = write!(out, "<td>{text}</td>");
        }
        if let [first, second] = &row.values[..] {
            let ratio = first.as_ref().zip(second.as_ref());
            let ratio = ratio.filter(|(_, second)| second.0 > 0.0);
            let text = ratio.map(|(first, second)| format!("{:.2}", first.0 / second.0));
            let _ = write!(out, "<td>{}</td>", text.unwrap_or_default());
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table>\n");
}

fn rows(runs: &[Named]) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |name: &str, value: &dyn Fn(&RunResult) -> Option<(f64, String)>| {
        rows.push(Row {
            name: name.to_owned(),
            values: runs.iter().map(|run| value(&run.result)).collect(),
        });
    };
    type Pick = fn(&RunResult) -> Option<&Flow>;
    let produce: Pick = |result| result.produce.as_ref();
    let consume: Pick = |result| result.consume.as_ref();
    for (name, pick) in [("produced", produce), ("read", consume)] {
        add(&format!("{name}, records/s"), &|result| {
            pick(result).map(|flow| (flow.records_per_s, count(flow.records_per_s)))
        });
        add(&format!("{name}, MB/s"), &|result| {
            pick(result).map(|flow| (flow.mb_per_s, format!("{:.1}", flow.mb_per_s)))
        });
        type Percentile = (&'static str, fn(&Latency) -> u64);
        let percentiles: [Percentile; 6] = [
            ("p50", |l| l.p50),
            ("p90", |l| l.p90),
            ("p99", |l| l.p99),
            ("p99.9", |l| l.p999),
            ("p99.99", |l| l.p9999),
            ("max", |l| l.max),
        ];
        for (word, percentile) in percentiles {
            add(&format!("{name}, latency {word}"), &|result| {
                let flow = pick(result).filter(|flow| flow.latency.count > 0)?;
                let value = percentile(&flow.latency);
                Some((value as f64, duration(value)))
            });
        }
    }
    add("broker CPU-seconds per GB", &|result| {
        let cpu = result.broker_cpu.as_ref()?;
        Some((cpu.per_gb, format!("{:.2}", cpu.per_gb)))
    });
    add("broker CPU-seconds per million records", &|result| {
        let cpu = result.broker_cpu.as_ref()?;
        Some((
            cpu.per_million_records,
            format!("{:.2}", cpu.per_million_records),
        ))
    });
    rows
}

fn charts(runs: &[Named]) -> Result<Vec<String>, String> {
    let percentiles = runs.iter().enumerate().flat_map(|(run, named)| {
        let result = &named.result;
        let of = |word: &str, latency: Option<&Latency>, stroke| {
            latency
                .filter(|latency| latency.count > 0)
                .map(|latency| Series {
                    name: label(runs, run, word),
                    run,
                    stroke,
                    points: curve(latency),
                })
        };
        let (produce, consume) = (result.produce.as_ref(), result.consume.as_ref());
        [
            of(
                word(produce),
                produce.map(|flow| &flow.latency),
                Stroke::Strong,
            ),
            of(
                "from the real send",
                produce.and_then(|flow| flow.latency_from_send.as_ref()),
                Stroke::Dashed,
            ),
            of(
                word(consume),
                consume.map(|flow| &flow.latency),
                Stroke::Thin,
            ),
        ]
        .into_iter()
        .flatten()
    });
    let percentiles: Vec<Series> = percentiles.collect();
    let over_time = |y: &dyn Fn(usize, &Flow) -> Vec<Series>| -> Vec<Series> {
        let runs = runs.iter().enumerate();
        runs.flat_map(|(run, named)| {
            let flow = named
                .result
                .consume
                .as_ref()
                .or(named.result.produce.as_ref());
            flow.map(|flow| y(run, flow)).unwrap_or_default()
        })
        .collect()
    };
    let latency = over_time(&|run, flow| {
        type Value = fn(&super::result::Moment) -> u64;
        let lines: [(&str, Value, Stroke); 3] = [
            ("p50", |moment| moment.p50, Stroke::Thin),
            ("p99", |moment| moment.p99, Stroke::Strong),
            ("max", |moment| moment.max, Stroke::Dashed),
        ];
        let line = |(word, value, stroke): (&str, Value, Stroke)| Series {
            name: label(runs, run, word),
            run,
            stroke,
            points: timeline(
                flow,
                |moment| value(moment) as f64,
                |moment| moment.records > 0,
            ),
        };
        lines.into_iter().map(line).collect()
    });
    let throughput = over_time(&|run, flow| {
        vec![Series {
            name: label(runs, run, "records/s"),
            run,
            stroke: Stroke::Strong,
            points: timeline(flow, |moment| moment.records as f64, |_| true),
        }]
    });
    Ok(vec![
        draw(
            "Latency by percentile",
            Axis::Percentile,
            Axis::Latency,
            &percentiles,
        )?,
        draw("Latency over time", Axis::Seconds, Axis::Latency, &latency)?,
        draw(
            "Throughput over time",
            Axis::Seconds,
            Axis::PerSecond,
            &throughput,
        )?,
    ])
}

fn label(runs: &[Named], run: usize, word: &str) -> String {
    match runs.len() {
        1 => word.to_owned(),
        _ => format!("{}: {word}", runs[run].name),
    }
}

fn word(flow: Option<&Flow>) -> &str {
    let meaning = flow.map_or("", |flow| flow.meaning.as_str());
    meaning.split_once(": ").map_or(meaning, |(_, what)| what)
}

/// Points up to the last percentile that one batch decides.
fn curve(latency: &Latency) -> Vec<(f64, f64)> {
    let last = (latency.count as f64).log10().max(1.0);
    let points = latency.curve.iter().map(|&(quantile, value)| {
        let x = match quantile < 1.0 {
            true => (1.0 / (1.0 - quantile)).log10(),
            false => last,
        };
        (x.min(last), value as f64)
    });
    points.collect()
}

/// The whole seconds: in what is behind them only the last answers come in.
fn timeline(
    flow: &Flow,
    value: impl Fn(&super::result::Moment) -> f64,
    shown: impl Fn(&super::result::Moment) -> bool,
) -> Vec<(f64, f64)> {
    let whole = (flow.seconds.round() as usize).max(1);
    let moments = flow.timeline.iter().take(whole).enumerate();
    moments
        .filter(|(_, moment)| shown(moment))
        .map(|(second, moment)| (second as f64 + 0.5, value(moment)))
        .collect()
}

fn add_conditions(out: &mut String, runs: &[Named]) {
    out.push_str("<table class=\"facts\"><tr><th></th>");
    for (index, run) in runs.iter().enumerate() {
        let _ = write!(
            out,
            "<th class=\"run{}\" style=\"text-align:left\">{}</th>",
            index % 2,
            escape(&run.name)
        );
    }
    out.push_str("</tr>\n");
    type Fact = (&'static str, fn(&RunResult) -> String);
    let facts: [Fact; 13] = [
        ("broker", |r| {
            let broker = &r.environment.broker;
            format!("{} at {}", broker.software, broker.address)
        }),
        ("durability", |r| r.environment.broker.durability.clone()),
        ("cores", |r| {
            let e = &r.environment;
            format!("broker {}, load {}", e.broker.cores, e.load_cores)
        }),
        ("load side", |r| {
            let busy = r.load_busy.unwrap_or(0.0) * 100.0;
            let max = r.load_max_records_s.map(count);
            let max = max.unwrap_or_else(|| "not measured".to_owned());
            format!("{busy:.0} % busy; against a server that drops everything: {max} records/s")
        }),
        ("verified", |r| match r.verification.on {
            true => format!(
                "{} records, {} faults, {:.2} CPU-s",
                count(r.verification.checks.records as f64),
                r.verification.checks.faults(),
                r.verification.cost_seconds
            ),
            false => "no".to_owned(),
        }),
        ("compression", |r| {
            format!("{:.2} to 1 ({})", r.compression_ratio, r.load.codec)
        }),
        ("payload", |r| {
            format!("{}, keys {}", r.load.payload, r.load.keys)
        }),
        ("disk", |r| match &r.environment.disk {
            Some(disk) => format!(
                "{} on {} ({}), scheduler {}, {}",
                disk.file_system, disk.device, disk.mount, disk.scheduler, disk.write_cache
            ),
            None => "unknown".to_owned(),
        }),
        ("CPU", |r| {
            let e = &r.environment;
            format!("{}, governor {}", e.cpu_model, e.cpu_governor)
        }),
        ("kernel", |r| r.environment.kernel.clone()),
        ("date", |r| r.environment.date.clone()),
        ("ringlog bench", |r| r.environment.ringlog.clone()),
        ("command", |r| r.environment.command.clone()),
    ];
    for (name, fact) in facts {
        let _ = write!(out, "<tr><td>{name}</td>");
        for run in runs {
            let _ = write!(out, "<td><code>{}</code></td>", escape(&fact(&run.result)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table>\n");
}
