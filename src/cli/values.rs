//! Values of flags and keys: addresses, listeners, core lists, sizes.
//! Pure functions.
//! Always: an error says what is wrong and shows a right one.
//! Naming the flag or line is the caller's.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Where to listen, or where to connect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostPort {
    /// A name or an address; an IPv6 address without brackets; empty for every address.
    pub host: String,
    pub port: u16,
}

impl HostPort {
    /// Reads `HOST:PORT`, `[IPV6]:PORT` or `:PORT`.
    pub fn parse(text: &str) -> Result<HostPort, String> {
        let bad = |what: &str| Err(format!("{what}; write HOST:PORT, such as 127.0.0.1:9092"));
        let Some((host, port)) = text.rsplit_once(':') else {
            return bad("there is no port");
        };
        let host = match host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
            Some(inner) => inner,
            None if host.contains(':') => return bad("an IPv6 address needs brackets"),
            None => host,
        };
        if !matches!(host, "" | "*") && !is_host(host) {
            return bad(&format!("`{host}` is no host"));
        }
        match port.parse::<u16>() {
            Ok(0) => bad("port 0 can't be told to clients"),
            Ok(port) => Ok(HostPort {
                host: host.to_string(),
                port,
            }),
            Err(_) => bad(&format!("`{port}` is no port")),
        }
    }

    /// True for an address that stands for every address of the machine.
    pub fn is_wildcard(&self) -> bool {
        matches!(self.host.as_str(), "" | "0.0.0.0" | "::" | "*")
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// One listener of Kafka's `listeners`: its name and address. A bare `HOST:PORT` is named PLAINTEXT.
pub(super) fn parse_listener(text: &str) -> Result<(String, HostPort), String> {
    match text.split_once("://") {
        Some((name, address)) => Ok((name.to_ascii_uppercase(), HostPort::parse(address)?)),
        None => Ok(("PLAINTEXT".to_string(), HostPort::parse(text)?)),
    }
}

/// What clients are told: `HOST:PORT`, or a host alone, which goes with `port`; an IPv6 address without brackets is a host alone.
pub(super) fn parse_advertised(text: &str, port: u16) -> Result<HostPort, String> {
    let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    match bare.unwrap_or(text) {
        "" => Err(format!("no host is named; {ADVERTISED_FORMS}")),
        host if host == "*" || is_host(host) => Ok(HostPort {
            host: host.to_string(),
            port,
        }),
        host if !host.contains(':') => Err(format!("`{host}` is no host; {ADVERTISED_FORMS}")),
        _ => HostPort::parse(text),
    }
}

const ADVERTISED_FORMS: &str = "write HOST or HOST:PORT, such as broker.example or 192.0.2.1:9092";

/// True for an IP address and for what can be a name: the characters that Kafka takes. What ends in a number is an address or nothing.
fn is_host(text: &str) -> bool {
    let without_zone = text.split_once('%').map_or(text, |(address, _)| address);
    if text.parse::<Ipv4Addr>().is_ok() || without_zone.parse::<Ipv6Addr>().is_ok() {
        return true;
    }
    let labels: Vec<&str> = text.strip_suffix('.').unwrap_or(text).split('.').collect();
    let is_label = |label: &&str| {
        let of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=63).contains(&label.len()) && !label.starts_with('-') && label.bytes().all(of_name)
    };
    let is_number = |label: &&str| label.bytes().all(|byte| byte.is_ascii_digit());
    text.len() <= 255 && labels.iter().all(is_label) && !labels.last().is_some_and(is_number)
}

/// Reads a list of cores such as `0-3,5`: ascending, each once.
pub fn parse_cores(text: &str) -> Result<Vec<usize>, String> {
    let mut cores = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| {
            text.trim()
                .parse::<usize>()
                .ok()
                .filter(|core| *core < CORES_MAX)
                .ok_or(format!(
                    "`{part}` is no core; write numbers and ranges, such as 0-3,5"
                ))
        };
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(format!(
                "`{part}` runs backwards; write the lower core first"
            ));
        }
        cores.extend(first..=last);
    }
    cores.sort_unstable();
    match cores.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("core {} is there twice; name it once", pair[0])),
        None => Ok(cores),
    }
}

/// Cores a list may name: as many as the kernel has (`CONFIG_NR_CPUS` at most).
const CORES_MAX: usize = 8192;

/// Reads a size in bytes: `4GiB`, `512MiB`, `4G` (binary), `4GB` (decimal), `1073741824`.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let bad = || format!("`{text}` is no size; write a number and a unit, such as 4GiB or 512MiB");
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number: u64 = text[..digits].parse().map_err(|_| bad())?;
    let unit: u64 = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(bad()),
    };
    let bytes = number.checked_mul(unit);
    bytes.filter(|bytes| *bytes > 0).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, host, port) in [
            ("127.0.0.1:9092", "127.0.0.1", 9092),
            ("broker.example:1", "broker.example", 1),
            ("[::1]:65535", "::1", 65535),
            (":9092", "", 9092),
        ] {
            let parsed = HostPort::parse(text).unwrap();
            assert_eq!((parsed.host.as_str(), parsed.port), (host, port));
            assert_eq!(parsed.to_string(), text);
        }
        for text in [
            "9092",
            "x",
            "x:",
            "x:0",
            "x:65536",
            "::1:9092",
            "a b:1",
            "x:-1",
            "a..b:1",
            "-a:1",
            "256.0.0.1:1",
            "a$:1",
            "[a:b]:1",
        ] {
            let error = HostPort::parse(text).unwrap_err();
            assert!(error.contains("such as 127.0.0.1:9092"), "{text}: {error}");
        }
    }

    #[test]
    fn advertised_addresses() {
        for (text, told) in [
            ("a", "a:7"),
            ("my_host-1.example.", "my_host-1.example.:7"),
            ("10.0.0.1", "10.0.0.1:7"),
            ("a:9", "a:9"),
            ("fe80::1%eth0", "[fe80::1%eth0]:7"),
            ("[::1]", "[::1]:7"),
            ("[::1]:9", "[::1]:9"),
        ] {
            let parsed = parse_advertised(text, 7).map(|address| address.to_string());
            assert_eq!(parsed.as_deref(), Ok(told));
        }
        for text in [
            "",
            "[]",
            "a b",
            "a,b",
            "9093",
            "300.1.1.1",
            "a:",
            "a:0",
            "a:b:c",
            "[::1",
        ] {
            assert!(parse_advertised(text, 7).is_err(), "{text}");
        }
    }

    #[test]
    fn core_lists() {
        assert_eq!(parse_cores("0-3,5"), Ok(vec![0, 1, 2, 3, 5]));
        assert_eq!(parse_cores(" 7 , 2 "), Ok(vec![2, 7]));
        for text in ["", "a", "3-1", "1,1", "0-2,2", "-1", "0-99999999"] {
            assert!(parse_cores(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("4GiB", 4 << 30),
            ("512MiB", 512 << 20),
            ("4g", 4 << 30),
            ("4GB", 4_000_000_000),
            ("17", 17),
            ("2 TiB", 2 << 40),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "GiB", "0", "-1", "4Gi", "1.5GiB", "99999999999TiB"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
