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

/// Whether an item's keyword may stand there: `impl` is one of a type elsewhere.
pub(crate) fn begins_item(tokens: &[Token<'_>], at: usize) -> bool {
    at == 0 || matches!(tokens[at - 1].text, "}" | "{" | ";" | "]" | ")" | "pub" | "unsafe")
}

/// The path of the type in an item's header, with the trait before it, and where the body begins.
pub(crate) fn header<'a>(tokens: &[Token<'a>]) -> (Vec<&'a str>, usize) {
    let (mut names, mut depth, mut done) = (vec![""], 0, false);
    for (i, token) in tokens.iter().enumerate() {
        match token.text {
            "<" => depth += 1,
            ">" if i > 0 && tokens[i - 1].text != "-" => depth -= 1,
            "{" | ";" | "(" if depth == 0 => {
                names.retain(|name| !name.is_empty());
                return (names, i);
            }
            "where" | ":" if depth == 0 => done = true,
            "for" if depth == 0 && !done => names.push(""),
            name if depth == 0 && !done && name.starts_with(char::is_alphabetic) => {
                *names.last_mut().unwrap() = name;
            }
            _ => {}
        }
    }
    (Vec::new(), tokens.len())
}

/// The length of a body in braces or parentheses; zero where none begins.
pub(crate) fn closing(tokens: &[Token<'_>]) -> usize {
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate() {
        match token.text {
            "{" | "(" => depth += 1,
            "}" | ")" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i;
        }
    }
    tokens.len()
}
