//! The codec against what it must agree with: Kafka's own definitions (`schemas`), another codec (`differential`), itself in
//! pieces (`produce_stream`), and bytes that are no message (`hostile`).
//!
//! `KAFKA_LIBS` names the folder of Kafka's jars; random tests print `RINGLOG_SEED=...` and take it.

mod definitions;
mod differential;
mod hostile;
mod messages;
mod produce_stream;
mod random;
mod schemas;
