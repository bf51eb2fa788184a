//! Configuration: the tables of keys, where a value comes from, and typed views of what is in force.
//! Tables are constants; static values are made once at start, dynamic ones live in the image.
//! Always: there is one definition per key, and whatever reads, checks, shows or documents a value goes through it.
//! Storing dynamic values is the controller's; reading files and flags is `cli`'s.

mod alter;
mod broker;
mod broker_table;
mod definition;
mod not_honoured;
mod resolve;
mod statics;
mod topic;
mod topic_table;

pub use alter::{AlterError, check_broker_values, check_dynamic, check_topic_values};
pub use broker::BrokerConfig;
pub use broker_table::{BROKER_CONFIGS, BrokerDefinition, broker_entry};
pub use definition::{Definition, Effect, InvalidValue, Kind, Rule, Value, split_list};
pub use not_honoured::{NOT_HONOURED, is_not_honoured};
pub use resolve::{BrokerLayers, ConfigEntry, ConfigMap, ConfigSynonym, Source};
pub use statics::{StaticConfig, StaticError, Taken};
pub use topic::{TimestampType, TopicCompression, TopicConfig};
pub use topic_table::{Synonym, TOPIC_CONFIGS, TopicDefinition, topic_definition, topic_entry};
