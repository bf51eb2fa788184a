//! A topic, a plan and a phase for a load: everything before the first record is sent.
//! Made by the modes on the first thread.
//! Always: what can be refused is refused before the broker is touched; `clean_up` follows every `new`.
//! Running it is the mode's.

use std::sync::Arc;
use std::time::Duration;

use super::load::{Acks, Load, Rate};
use super::modes::Mode;
use super::payload::Templates;
use super::phase::{Phase, Reading};
use super::plan;
use super::result::RunResult;
use super::runner::{self, Show, View};
use super::search::{self, Patience};
use super::target::{Prepared, Target};
use super::text;

/// A run that may begin.
pub struct Setup {
    pub prepared: Prepared,
    pub phase: Phase,
    /// As asked; with the rate that was found, once it was searched.
    pub load: Load,
    /// True once `--rate max` has found its rate.
    pub rate_was_searched: bool,
}

/// What `consume` fills a topic with, unless told otherwise.
const FILL_BYTES: u64 = 1 << 30;

impl Setup {
    pub fn new(mode: Mode, target: &Target, load: &Load) -> Result<Setup, String> {
        check(mode, load)?;
        // For refusals and the size of batches; made again when the topic has other partitions.
        let templates = Templates::build(load, load.partitions.max(1) as usize)?;
        let must_exist = mode == Mode::Consume && load.topic.is_some();
        let prepared = target.prepare(load, templates.batch_bytes_max(), must_exist)?;
        match phase(mode, target, load, &prepared, templates) {
            Ok(phase) => Ok(Setup {
                prepared,
                phase,
                load: load.clone(),
                rate_was_searched: false,
            }),
            Err(why) => {
                target.clean_up(&prepared, load.keep_topic);
                Err(why)
            }
        }
    }

    /// Deletes the topic if it is the run's, and notes in the result where it is not.
    pub fn clean_up(&self, target: &Target, result: Option<&mut RunResult>) {
        let left = target.clean_up(&self.prepared, self.load.keep_topic);
        let topic = &self.prepared.topic.name;
        let Some(result) = result else {
            return;
        };
        if let Some(why) = left {
            result
                .notes
                .push(format!("topic {topic} was left behind: {why}"));
        }
        if self.load.keep_topic {
            result.notes.push(format!("topic {topic} was kept"));
        }
    }

    /// Searches the highest rate, if that is asked for.
    pub fn settle_rate(&mut self, show: Show) -> Result<(), String> {
        if self.load.rate == Rate::Max {
            self.load.rate = Rate::Fixed(search::highest_rate(&self.phase, Patience::USUAL, show)?);
            self.rate_was_searched = true;
        }
        self.phase.rate = Some(self.load.rate);
        Ok(())
    }

    /// The offsets behind what is there now.
    pub fn ends(&self, target: &Target) -> Result<Vec<i64>, String> {
        let bounds = target.bounds(&self.prepared.topic)?;
        Ok(bounds.into_iter().map(|(_, end)| end).collect())
    }

    /// Writes about `records` records as fast as it goes; gives the bounds of what is there then.
    pub fn fill(
        &self,
        target: &Target,
        records: u64,
        show: Show,
    ) -> Result<Vec<(i64, i64)>, String> {
        if show == Show::Progress {
            eprintln!(
                "filling the topic with {} records first",
                text::count(records as f64)
            );
        }
        let filling = Phase {
            rate: Some(Rate::Flood),
            reading: Reading::Nothing,
            warmup: Duration::ZERO,
            duration: None,
            records: Some(records.max(1)),
            ..self.phase.clone()
        };
        let view = View {
            show,
            ..View::BLIND
        };
        let filled = runner::run(&filling, view)?.outcome;
        match filled.failure {
            Some(why) => Err(format!("the topic could not be filled: {why}")),
            None => target.bounds(&self.prepared.topic),
        }
    }

    /// Bounds of what is to be read; filled first if the topic is the run's own.
    pub fn filled(&self, target: &Target, show: Show) -> Result<Vec<(i64, i64)>, String> {
        let (prepared, load) = (&self.prepared, &self.load);
        if prepared.bounds.iter().any(|(first, end)| first != end) {
            return Ok(prepared.bounds.clone());
        }
        if !prepared.made {
            let name = &prepared.topic.name;
            return Err(format!(
                "topic {name} is empty; fill it with `ringlog bench produce --topic {name}`, or leave --topic out"
            ));
        }
        let usual = self.records_of(FILL_BYTES);
        self.fill(target, load.records.unwrap_or(usual).min(usual), show)
    }

    /// How many records have so many bytes.
    pub fn records_of(&self, bytes: u64) -> u64 {
        let (_, record_bytes) = self.phase.templates.means();
        (bytes as f64 / record_bytes.max(1.0)) as u64
    }
}

fn check(mode: Mode, load: &Load) -> Result<(), String> {
    if mode == Mode::EndToEnd && load.acks == Acks::None {
        return Err("e2e needs acks to know what must arrive; use --acks 1 or all".to_owned());
    }
    if mode != Mode::Consume && load.rate == Rate::Max && load.acks == Acks::None {
        return Err(
            "--rate max needs acks to see a queue grow; use --acks 1 or all, or a fixed --rate"
                .to_owned(),
        );
    }
    Ok(())
}

fn phase(
    mode: Mode,
    target: &Target,
    load: &Load,
    prepared: &Prepared,
    templates: Templates,
) -> Result<Phase, String> {
    let partitions = prepared.topic.partitions();
    let templates = match templates.shares.len() == partitions {
        true => templates,
        false => Templates::build(load, partitions)?,
    };
    let producers = match mode {
        Mode::Produce | Mode::EndToEnd => load.producers,
        Mode::Consume => load.producers.max(load.consumers),
    };
    let consumers = match mode {
        Mode::Produce => 0,
        Mode::Consume | Mode::EndToEnd => load.consumers,
    };
    let mut plans = plan::plan(
        &prepared.topic,
        &templates.shares,
        producers,
        consumers,
        target.load_cores.len(),
    )?;
    for plan in &mut plans {
        plan.readers = vec![plan.readers.clone(); load.copies].concat();
    }
    Ok(Phase {
        load: Arc::new(load.clone()),
        topic: prepared.topic.clone(),
        foreign: !prepared.made,
        templates: Arc::new(templates),
        plans,
        cores: target.load_cores.clone(),
        rate: None,
        reading: Reading::Nothing,
        cold: Vec::new(),
        warmup: Duration::from_secs_f64(load.warmup_seconds),
        duration: load.duration_seconds.map(Duration::from_secs_f64),
        records: load.records,
    })
}
