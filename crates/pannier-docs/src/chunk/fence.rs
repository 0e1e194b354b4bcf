//! Fenced code blocks of Markdown that a chunk cuts.

/// The fence that is open after some lines.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fence(Option<(char, usize)>);

impl Fence {
    /// Reads the next line. Returns whether it opens or closes a fence.
    pub(crate) fn read(&mut self, line: &str) -> bool {
        let line = line.trim_start_matches([' ', '\t', '>']);
        let Some(mark) = line.chars().next().filter(|mark| matches!(mark, '`' | '~')) else {
            return false;
        };
        let rest = line.trim_start_matches(mark);
        let length = line.len() - rest.len();
        self.0 = match self.0 {
            None if length >= 3 && !(mark == '`' && rest.contains('`')) => Some((mark, length)),
            Some((other, least)) if mark == other && length >= least && rest.trim().is_empty() => {
                None
            }
            _ => return false,
        };
        true
    }

    pub(crate) fn is_open(self) -> bool {
        self.0.is_some()
    }
}

/// Returns the mark that closes the fence in which a text ends, if it ends inside one.
pub(crate) fn open_fence(text: &str) -> Option<String> {
    let mut fence = Fence::default();
    text.lines().for_each(|line| _ = fence.read(line));
    fence.0.map(|(mark, length)| mark.to_string().repeat(length))
}

/// Returns a text that starts inside a fence, if `opening` is not empty, and may end inside one, with complete fences.
pub(crate) fn complete_fences(opening: &str, text: &str) -> String {
    let mut complete = match opening.is_empty() {
        true => text.to_owned(),
        false => format!("{opening}\n{text}"),
    };
    if let Some(mark) = open_fence(&complete) {
        if !complete.ends_with('\n') {
            complete.push('\n');
        }
        complete.push_str(&mark);
        complete.push('\n');
    }
    complete
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_closed_by_one_of_its_kind() {
        for open in ["```", "text\n```rust\ncode", "~~~\n```\n", "````\n```\n", "```\n``` x\n"] {
            assert!(open_fence(open).is_some(), "{open}");
            assert_eq!(open_fence(&complete_fences("", open)), None, "{open}");
        }
        for closed in
            ["", "```\n```", "- a\n  ```sh\n  x\n  ```\n", "````\n```\n````\n", "``` `\n", "``\n"]
        {
            assert_eq!(open_fence(closed), None, "{closed}");
            assert_eq!(complete_fences("", closed), closed);
        }
        assert_eq!(complete_fences("~~~~ sh", "x\n```"), "~~~~ sh\nx\n```\n~~~~\n");
    }
}
