//! DescribeConfigs: configuration of topics and brokers (KIP-133).
//! v1: the oldest served, source and synonyms (KIP-226). v3: types and documentation (KIP-569). v4: flexible.

use crate::wire::{Str, wire_message};

wire_message! {
    request DescribeConfigsRequest, key 32, versions "1-4", flexible "4+" {
        resources: Vec<DescribeConfigsResource>, "0+";
        include_synonyms: bool, "1+";
        include_documentation: bool, "3+";
    }

    struct DescribeConfigsResource {
        /// 2: topic; 4: broker; 8: broker logger; 16: client metrics; 32: group.
        resource_type: i8, "0+";
        resource_name: Str, "0+";
        /// Null: all.
        configuration_keys: Option<Vec<Str>>, "0+", nullable "0+";
    }

    response DescribeConfigsResponse, key 32, versions "1-4", flexible "4+" {
        throttle_time_ms: i32, "0+";
        results: Vec<DescribeConfigsResult>, "0+";
    }

    struct DescribeConfigsResult {
        error_code: i16, "0+";
        error_message: Option<Str>, "0+", nullable "0+";
        /// 2: topic; 4: broker; 8: broker logger; 16: client metrics; 32: group.
        resource_type: i8, "0+";
        resource_name: Str, "0+";
        configs: Vec<DescribeConfigsResourceResult>, "0+";
    }

    struct DescribeConfigsResourceResult {
        name: Str, "0+";
        value: Option<Str>, "0+", nullable "0+";
        read_only: bool, "0+";
        /// 1: topic; 2: dynamic broker; 3: dynamic default of brokers; 4: static; 5: default (KIP-226).
        config_source: i8 = -1, "1+", ignorable;
        is_sensitive: bool, "0+";
        synonyms: Vec<DescribeConfigsSynonym>, "1+", ignorable;
        /// 0: unknown; 1: boolean; 2: string; 3: int; 4: short; 5: long; 6: double; 7: list; 8: class; 9: password.
        config_type: i8, "3+", ignorable;
        documentation: Option<Str>, "3+", nullable "0+", ignorable;
    }

    struct DescribeConfigsSynonym {
        name: Str, "1+";
        value: Option<Str>, "1+", nullable "0+";
        /// As `config_source`.
        source: i8, "1+";
    }
}
