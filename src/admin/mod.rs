//! What an operator sees: counters and gauges of every shard as Prometheus text over HTTP.
//! Runs on shard 0 when `--metrics` names an address; asks the other shards over the mesh.
//! Always: it changes nothing, and a slow scraper costs only its connection.
//! What is counted is `shard::counters`'.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;

use crate::io::file::WriteMode;
use crate::io::listener::Listener;
use crate::io::socket::Socket;
use crate::io::{clock, executor};
use crate::shard::Shard;
use crate::shard::counters::{Kind, Metric};

/// Serves metrics until it is cancelled.
pub async fn serve(shard: Rc<Shard>, mut listener: Listener) {
    loop {
        match listener.accept().await {
            Ok((socket, _)) => {
                executor::spawn_detached(answer(shard.clone(), socket));
            }
            Err(error) => {
                tracing::error!("metrics are served no more: {error}");
                return;
            }
        }
    }
}

async fn answer(shard: Rc<Shard>, socket: Socket) {
    let deadline = clock::mono().plus_ms(SCRAPE_MS_MAX);
    let scraped = executor::until(deadline, async {
        let mut buffer = BytesMut::new();
        loop {
            if socket
                .recv_buf(&mut buffer, REQUEST_BYTES_MAX)
                .await
                .unwrap_or(0)
                == 0
            {
                return;
            }
            let mut headers = [httparse::EMPTY_HEADER; 64];
            let mut request = httparse::Request::new(&mut headers);
            let (status, body) = match request.parse(&buffer) {
                Ok(httparse::Status::Partial) if buffer.len() < REQUEST_BYTES_MAX => continue,
                Ok(httparse::Status::Complete(_)) => match (request.method, request.path) {
                    (Some("GET"), Some("/metrics")) => ("200 OK", text(&shard).await),
                    (Some("GET"), _) => ("404 Not Found", "metrics are at /metrics\n".to_owned()),
                    _ => ("405 Method Not Allowed", String::new()),
                },
                Ok(httparse::Status::Partial) | Err(_) => ("400 Bad Request", String::new()),
            };
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            // A scraper that is gone needs no answer.
            let _ = socket.send((head + &body).as_bytes(), false).await;
            return;
        }
    });
    if scraped.await.is_none() {
        socket.shutdown();
    }
}

/// Every counter of every shard, and what its partitions, groups and memory are now.
async fn text(shard: &Rc<Shard>) -> String {
    let mut lines: BTreeMap<&'static str, Line> = BTreeMap::new();
    for to in shard.all_shards() {
        let counters = shard.at(to, |shard| async move {
            let mut all = shard.counters.all();
            let gauge = |name, meaning, value| Metric {
                name,
                meaning,
                kind: Kind::Gauge,
                value,
            };
            let groups = shard.group_count() as u64;
            let offline = shard.offline_count() as u64;
            let (used, budget) = (shard.arena.used(), shard.arena.budget());
            all.extend([
                gauge("groups", "Consumer groups coordinated", groups),
                gauge("partitions_offline", "Partitions offline now", offline),
                gauge("arena_bytes_used", "Bytes of the arena in use", used),
                gauge("arena_bytes", "Bytes of the arena", budget),
                Metric {
                    name: "arena_huge_pages",
                    meaning: "Huge pages of 2 MiB that the system gave the arena; 0: it runs on small ones, and slower",
                    kind: Kind::Counter,
                    value: shard.arena.huge_pages(),
                },
            ]);
            all
        });
        for metric in counters.await.unwrap_or_default() {
            let line = lines.entry(metric.name).or_insert(Line {
                meaning: metric.meaning,
                kind: metric.kind,
                values: Vec::new(),
            });
            line.values.push((to.0, metric.value));
        }
    }
    let mut text = String::new();
    for (name, line) in lines {
        let kind = match line.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "# HELP ringlog_{name} {}", line.meaning);
        let _ = writeln!(text, "# TYPE ringlog_{name} {kind}");
        for (shard, value) in line.values {
            let _ = writeln!(text, "ringlog_{name}{{shard=\"{shard}\"}} {value}");
        }
    }
    let buffered = u8::from(shard.settings.mode == WriteMode::Buffered);
    let _ = writeln!(
        text,
        "# HELP ringlog_buffered 1 if the log is written through the page cache (--buffered)\n# TYPE ringlog_buffered gauge\nringlog_buffered {buffered}"
    );
    text
}

/// One counter, as every shard has it.
struct Line {
    meaning: &'static str,
    kind: Kind,
    /// By shard.
    values: Vec<(u16, u64)>,
}

const REQUEST_BYTES_MAX: usize = 8 << 10;
const SCRAPE_MS_MAX: i64 = Duration::from_secs(10).as_millis() as i64;
