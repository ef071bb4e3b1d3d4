//! The tokens of a source.

/// A token, and its line: an identifier, `::`, or any other single character.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    pub(crate) line: usize,
}

/// Splits a source into tokens; comments, strings and characters are left out.
pub(crate) fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 1);
    while let Some(c) = source[at..].chars().next() {
        let rest = &source[at..];
        let ident = |c: char| c.is_alphanumeric() || c == '_';
        let raw = rest.strip_prefix('r').map(|r| r.trim_start_matches('#'));
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if raw.is_some_and(|r| r.starts_with('"')) {
            let hashes = rest.bytes().skip(1).take_while(|b| *b == b'#').count();
            let close = format!("\"{}", "#".repeat(hashes));
            let open = hashes + 2;
            rest[open..].find(&close).map_or(rest.len(), |end| open + end + close.len())
        } else if c == '"' {
            let mut escaped = false;
            let close = rest.char_indices().skip(1).find(|(_, c)| {
                let end = *c == '"' && !escaped;
                escaped = *c == '\\' && !escaped;
                end
            });
            close.map_or(rest.len(), |(end, _)| end + 1)
        } else if c == '\'' {
            // A character, or a lifetime, whose name is then a harmless token.
            let mut inner = rest.chars().skip(1);
            match (inner.next(), inner.next()) {
                (Some('\\'), Some(_)) => rest[3..].find('\'').map_or(rest.len(), |end| end + 4),
                (Some(inside), Some('\'')) => 2 + inside.len_utf8(),
                _ => 1,
            }
        } else if ident(c) {
            let length = rest.find(|c| !ident(c)).unwrap_or(rest.len());
            tokens.push(Token { text: &rest[..length], line });
            length
        } else if rest.starts_with("::") {
            tokens.push(Token { text: "::", line });
            2
        } else {
            if !c.is_whitespace() {
                tokens.push(Token { text: &rest[..c.len_utf8()], line });
            }
            c.len_utf8()
        };
        line += rest[..length].matches('\n').count();
        at += length;
    }
    tokens
}
