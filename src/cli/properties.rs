//! Java properties text: keys and values with their lines.
//! A pure function over the text of a file.
//! Always: what `java.util.Properties` reads from a file is read from it here, each with the line it begins on.
//! What keys mean is `serve`'s.

/// One key with its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Property {
    /// From 1.
    pub line: usize,
    pub key: String,
    pub value: String,
}

/// Reads all properties; the error names the line.
pub(super) fn parse(text: &str) -> Result<Vec<Property>, (usize, String)> {
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, first)) = lines.next() {
        let mut logical = first.trim_start().to_string();
        if logical.is_empty() || logical.starts_with(['#', '!']) {
            continue;
        }
        // An odd number of backslashes at the end: the next line goes on here.
        while logical.bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 1 {
            logical.pop();
            match lines.next() {
                Some((_, next)) => logical.push_str(next.trim_start()),
                None => break,
            }
        }
        let line = index + 1;
        let (key, value) = split(&logical);
        found.push(Property {
            line,
            key: unescape(key).map_err(|error| (line, error))?,
            value: unescape(value)
                .map_err(|error| (line, error))?
                .trim_end()
                .to_string(),
        });
    }
    Ok(found)
}

/// Key and value: apart at the first `=`, `:` or blank that is not escaped.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.find(|c: char| {
        let ends = !escaped && (c == '=' || c == ':' || c.is_whitespace());
        escaped = !escaped && c == '\\';
        ends
    });
    let Some(end) = end else {
        return (line, "");
    };
    let rest = line[end..].trim_start();
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (&line[..end], value.trim_start())
}

fn unescape(text: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match chars.next() {
            Some('t') => plain.push('\t'),
            Some('n') => plain.push('\n'),
            Some('r') => plain.push('\r'),
            Some('f') => plain.push('\u{c}'),
            Some('u') => {
                let digits: String = chars.by_ref().take(4).collect();
                let code = u32::from_str_radix(&digits, 16).ok();
                let c = code.filter(|_| digits.len() == 4).and_then(char::from_u32);
                plain.push(c.ok_or(format!(
                    "`\\u{digits}` is no character; write four hexadecimal digits"
                ))?);
            }
            Some(other) => plain.push(other),
            None => {}
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Golden: what `java.util.Properties` (17) loads from the same text.
    #[test]
    fn text_is_read_as_java_reads_it() {
        let text = "# comment\n! too\n\na=1\n  b : 2\nc 3\nd=\\\n  long, \\\n  list\ne\\=f = x=y\nempty=\nbare\npath=C\\:\\\\dir\nu=\\u00e9\ntail = x  \n";
        let read: Vec<(usize, String, String)> = parse(text)
            .unwrap()
            .into_iter()
            .map(|p| (p.line, p.key, p.value))
            .collect();
        let expected = [
            (4, "a", "1"),
            (5, "b", "2"),
            (6, "c", "3"),
            (7, "d", "long, list"),
            (10, "e=f", "x=y"),
            (11, "empty", ""),
            (12, "bare", ""),
            (13, "path", "C:\\dir"),
            (14, "u", "é"),
            // Java keeps the blanks at the end; Kafka trims every value it reads.
            (15, "tail", "x"),
        ]
        .map(|(line, key, value)| (line, key.to_string(), value.to_string()));
        assert_eq!(read, expected);
    }

    #[test]
    fn bad_escape_names_its_line() {
        let (line, text) = parse("a=1\nb=\\u12\n").unwrap_err();
        assert_eq!(line, 2);
        assert!(text.contains("`\\u12`"), "{text}");
    }
}
